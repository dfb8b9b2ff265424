// Why a plan cannot be trained here, if it cannot.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/trainable.hpp"

#include <fmt/format.h>

#include <string_view>

#include "plan/job/direct_skips.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// What of a layer tensor parallelism's kernels do not divide, with its verb; null where all is.
struct UndividedPart {
  const char* operator()(const EmbeddingShape& e) const {
    if (e.patch > 0) return "patches of images are";
    return e.norm || e.token_types > 0 ? "norms and token types of an embedding are" : nullptr;
  }
  const char* operator()(const TransformerShape& b) const {
    return b.pre_norm ? nullptr : "norms behind the sums are";
  }
  const char* operator()(const HeadShape& h) const {
    return h.dense != HeadDense::none || h.first_token ? "a head with a layer in front is"
                                                       : nullptr;
  }
  template <class Shape>
  const char* operator()(const Shape&) const {
    return nullptr;
  }
};

// What a layer asks for beyond what the CPU's kernels do; empty where nothing.
struct LackingOnCpu {
  bool images = false;  // the model's samples

  std::string_view operator()(const EmbeddingShape& e) const {
    if (e.shared) return "a second embedding";
    if (e.scale != 1) return "a scaled embedding";
    return "";
  }
  std::string_view operator()(const TransformerShape& b) const {
    if (b.rotary && b.angles.scaling == RotaryScaling::other)
      return "this scaling of rotary positions";
    if (b.rotary && b.head_dim % 2 != 0) return "rotary positions in heads of odd width";
    if (b.experts > 1) return "experts";
    if (b.latent.key_value > 0) return "latent attention";
    if (b.window > 0 || b.sinks) return "windows or sinks of attention";
    if (b.post_norms) return "norms of what attention and MLP give";
    if (b.parallel || (!b.pre_norm && b.qk_norm)) return "this order of norms";
    if (b.cross_attention || b.relative_buckets > 0) return "this attention";
    return "";
  }
  std::string_view operator()(const NormShape&) const { return ""; }
  std::string_view operator()(const HeadShape& h) const {
    if (h.dense == HeadDense::pooler) return "a pooler before the head";
    if (images) return h.pooled || h.places > 0 ? "" : "a head of tokens on maps";
    if (h.bias && h.dense == HeadDense::none) return "a head with bias";
    return h.pooled ? "a pooled head" : "";
  }
  std::string_view operator()(const CellShape&) const { return ""; }
  std::string_view operator()(const TimedShape&) const { return ""; }
  std::string_view operator()(const SizedShape&) const { return "a layer known by its sizes"; }
};

// CUDA's: what GPT-2 and OPT need.
struct LackingOnCuda : LackingOnCpu {
  using LackingOnCpu::operator();
  std::string_view operator()(const CellShape&) const { return "convolutions"; }
  std::string_view operator()(const EmbeddingShape& e) const {
    if (e.token_types > 0) return "token types";
    if (e.norm) return "a normalised embedding";
    if (e.patch > 0) return "image patches";
    return LackingOnCpu::operator()(e);
  }
  std::string_view operator()(const HeadShape& h) const {
    if (h.dense != HeadDense::none) return "a dense layer before the head";
    return LackingOnCpu::operator()(h);
  }
  std::string_view operator()(const TransformerShape& b) const {
    if (!b.pre_norm) return "this order of norms";
    if (!b.causal) return "this attention";
    if (b.norm != NormKind::layer_norm) return "RMS norms";
    if (b.rotary) return "rotary positions";
    if (b.gated) return "a gated MLP";
    if (b.kv_heads != b.heads) return "grouped-query attention";
    if (b.qk_norm) return "norms of queries and keys";
    if (b.heads * b.head_dim != b.hidden) return "heads that do not add up to the width";
    if (!b.qkv_bias || !b.output_bias || !b.mlp_bias) return "products without bias";
    return LackingOnCpu::operator()(b);
  }
  std::string_view operator()(const NormShape& n) const {
    return n.kind == NormKind::layer_norm ? "" : "RMS norms";
  }
};

std::string_view lacking(const Layer& layer, bool images, BackendKind backend) {
  return backend == BackendKind::cuda ? std::visit(LackingOnCuda{{images}}, layer.shape)
                                      : std::visit(LackingOnCpu{images}, layer.shape);
}

void require_what_runs(const Plan& plan, Replicas replicas, BackendKind backend) {
  const auto refuse = [](const std::string& what) {
    throw MissingComponent(fmt::format("the plan has {}; that can be forecast, not run", what));
  };
  if (plan.tp > 1 && backend != BackendKind::cpu) refuse(fmt::format("tp = {} on a GPU", plan.tp));
  if (plan.cp > 1) refuse(fmt::format("cp = {}", plan.cp));
  if (plan.ep > 1) refuse(fmt::format("ep = {}", plan.ep));
  const bool divided = plan.tp > 1;
  if ((divided || plan.dp > 1) && replicas == Replicas::one) {
    throw MissingComponent(fmt::format(
        "the plan has {} = {}; {} run as processes only (mpirun -n {} weir run)",
        divided ? "tp" : "dp", divided ? plan.tp : plan.dp,
        divided ? "the devices that divide layers" : "replicas", plan.pp * plan.tp * plan.dp));
  }
  // A single replica has nobody to share with.
  if (plan.zero > 1 || (plan.zero == 1 && plan.dp > 1 && backend != BackendKind::cpu))
    refuse(fmt::format("zero = {}{}", plan.zero, plan.zero == 1 ? " on a GPU" : ""));
  if (plan.recompute.mode == RecomputeMode::selective || plan.recompute.at_a_time > 1)
    refuse("recompute = " + recompute_word(plan.recompute));
}

}  // namespace

void require_kernels(const Model& model, BackendKind backend) {
  for (const Layer& layer : model.layers) {
    const std::string_view what = lacking(layer, images_of(model) != nullptr, backend);
    if (what.empty()) continue;
    throw MissingComponent(
        fmt::format("{}: {}: the {} backend has no kernels for {}; it can be forecast, not trained "
                    "or measured",
                    model.name, layer.name, to_string(backend), what));
  }
}

namespace {

// Rules that CUDA's kernels do not know.
void require_optimizer(const Optimizer& optimizer, BackendKind backend) {
  if (backend != BackendKind::cuda) return;
  const auto refuse = [](std::string_view what) {
    throw MissingComponent(fmt::format(
        "optimizer: the cuda backend has no kernels for {}; the cpu backend has", what));
  };
  if (optimizer.kind != OptimizerKind::sgd && optimizer.kind != OptimizerKind::adamw)
    refuse(to_string(optimizer.kind));
  if (optimizer.nesterov) refuse("nesterov");
  if (optimizer.clip_norm > 0) refuse("clip_norm");
}

// An image is as long as it is.
void require_whole_images(const ResolvedPlan& loaded) {
  const auto* embedding = std::get_if<EmbeddingShape>(&loaded.model.layers.front().shape);
  if (embedding == nullptr || embedding->patch == 0) return;
  if (loaded.plan.seq_length == embedding->positions) return;
  throw InputError(loaded.plan.model_path, "seq_length",
                   fmt::format("an image has {} positions, the plan's sequences {}",
                               embedding->positions, loaded.plan.seq_length));
}

}  // namespace

void require_trainable(const ResolvedPlan& loaded, Replicas replicas, BackendKind backend) {
  require_what_runs(loaded.plan, replicas, backend);
  require_stages(loaded, Stack{});
  if (goes_directly(loaded.plan) && backend == BackendKind::cuda)
    throw MissingComponent(
        "skips: direct: the cpu backend sends them so, the cuda backend does not");
  require_kernels(loaded.model, backend);
  require_optimizer(loaded.plan.optimizer, backend);
  require_whole_images(loaded);
  if (loaded.plan.samples > 0 && backend == BackendKind::cuda)
    throw MissingComponent(
        "the cuda backend trains on micro-batches of one size: the plan's global_batch_size is "
        "none "
        "of b M D");
  for (const Layer& layer : loaded.model.layers) {
    if (loaded.plan.tp > 1) {
      if (const char* what = std::visit(UndividedPart{}, layer.shape)) {
        throw MissingComponent(
            fmt::format("{}: {} not divided among devices: not with tp above 1", layer.name, what));
      }
    }
    if (std::holds_alternative<TimedShape>(layer.shape)) {
      throw InputError(
          loaded.plan.model_path, layer.name,
          "a layer of which only times are known cannot be trained; use the synthetic backend");
    }
  }
  if (loaded.schedule.shape.segments > 1) {
    throw InputError(loaded.plan.schedule, "",
                     "slices of sequences cannot be trained; use the synthetic backend");
  }
  if (!std::holds_alternative<HeadShape>(loaded.model.layers.back().shape) ||
      (!std::holds_alternative<EmbeddingShape>(loaded.model.layers.front().shape) &&
       images_of(loaded.model) == nullptr)) {
    throw InputError(loaded.plan.model_path, "layers",
                     "training needs an embedding or images first and a head last");
  }
}

}  // namespace weir

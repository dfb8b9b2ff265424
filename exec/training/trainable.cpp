// Why a plan cannot be trained here, if it cannot.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/trainable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/job/direct_skips.hpp"
#include "plan/model/sample.hpp"
#include "plan/model/split.hpp"
#include "plan/schedule/generators/generators.hpp"
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

using Things = std::vector<std::string_view>;

// Of these, what is there.
Things those(std::initializer_list<std::pair<bool, std::string_view>> asked) {
  Things found;
  for (const auto& [there, what] : asked) {
    if (there) found.push_back(what);
  }
  return found;
}
Things operator+(Things first, const Things& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What a layer asks for beyond what the CPU's kernels do; empty where nothing.
struct LackingOnCpu {
  SampleKind samples = SampleKind::next_tokens;  // the model's

  Things operator()(const EmbeddingShape& e) const {
    // Only samples of masked tokens have types in them.
    return those({{e.shared, "a second embedding"},
                  {e.scale != 1, "a scaled embedding"},
                  {e.token_types > 0 && samples != SampleKind::masked_tokens,
                   "token types in front of causal blocks"}});
  }
  Things operator()(const TransformerShape& b) const {
    return those({
        {b.rotary && b.angles.scaling == RotaryScaling::other, "this scaling of rotary positions"},
        {b.rotary && b.head_dim % 2 != 0, "rotary positions in heads of odd width"},
        {b.experts > 1, "experts"},
        {b.latent.key_value > 0, "latent attention"},
        {b.window > 0 || b.sinks, "windows or sinks of attention"},
        {b.wide_qk_norm, "norms of all heads' queries and keys together"},
        {b.values_are_keys, "values that are keys"},
        {b.post_norms, "norms of what attention and MLP give"},
        {b.parallel || (!b.pre_norm && b.qk_norm), "this order of norms"},
        {b.cross_attention || b.relative_buckets > 0, "this attention"},
        {predicts(b), "blocks that predict further tokens (prediction_layers)"},
    });
  }
  Things operator()(const NormShape&) const { return {}; }
  Things operator()(const HeadShape& h) const {
    const bool pooler = h.dense == HeadDense::pooler;
    if (samples == SampleKind::image) {
      return those({{pooler, "a pooler before the head"},
                    {!h.pooled && h.places == 0, "a head of tokens on maps"}});
    }
    return those({{pooler, "a pooler before the head"},
                  {h.bias && h.dense == HeadDense::none, "a head with bias"},
                  {h.pooled, "a pooled head"}});
  }
  Things operator()(const CellShape&) const { return {}; }
  Things operator()(const TimedShape&) const { return {}; }
  Things operator()(const SizedShape&) const { return {"a layer known by its sizes"}; }
};

// CUDA's: what GPT-2, OPT, BERT, ViT and networks of cells need, and Llama's family. Windows of
// attention it has, and the CPU not.
struct LackingOnCuda : LackingOnCpu {
  using LackingOnCpu::operator();
  static constexpr std::int64_t kMostTurned = 256;  // exec/cuda/kernels/heads.hpp
  Things operator()(const TransformerShape& b) const {
    const bool turned = b.rotary || b.qk_norm;
    // The parts of a pass's workspace begin on 16 bytes.
    const std::int64_t together = b.heads * b.head_dim;
    const bool uneven =
        together != b.hidden && (b.hidden % 8 != 0 || (together > b.hidden && together % 8 != 0));
    TransformerShape on_cpu = b;
    if (!b.sinks) on_cpu.window = 0;
    return those({{!b.causal && b.window > 0, "windows of attention that is not causal"},
                  {b.qk_norm && b.head_dim % 2 != 0, "norms of heads of odd width"},
                  {turned && b.head_dim > kMostTurned,
                   "norms or rotary positions in heads above 256"},
                  {uneven, "heads that do not add up to the width, by eights"}}) +
           LackingOnCpu::operator()(on_cpu);
  }
};

Things lacking(const Layer& layer, SampleKind samples, BackendKind backend) {
  Things things = backend == BackendKind::cuda ? std::visit(LackingOnCuda{{samples}}, layer.shape)
                                               : std::visit(LackingOnCpu{samples}, layer.shape);
  const Treatment& treated = layer.treated;
  if (treated.frozen) things.emplace_back("frozen weights (frozen, lora)");
  if (treated.fp8 != Fp8Recipe::none) things.emplace_back("products in 8 bits (fp8)");
  return things;
}

// Why a plan cannot be trained, a line each, in the order in which they are looked for.
using Reasons = std::vector<std::string>;

// The words of a plan that the backend does not run; selective re-materialisation is that of
// attention cores.
std::vector<std::string> forecast_alone(const ResolvedPlan& loaded, BackendKind backend) {
  const Plan& plan = loaded.plan;
  std::vector<std::string> words;
  if (plan.cp > 1) words.push_back(fmt::format("cp = {}", plan.cp));
  if (plan.ep > 1) words.push_back(fmt::format("ep = {}", plan.ep));
  const std::string recompute = "recompute = " + recompute_word(plan.recompute);
  const bool selective = plan.recompute.mode == RecomputeMode::selective;
  const bool cores = plan.recompute.modules == BlockModule::core_attn;
  if (selective && !cores) words.push_back(recompute);
  if (plan.zero_shards > 0) words.push_back(fmt::format("zero_shards = {}", plan.zero_shards));
  if (plan.zero_secondary > 0)
    words.push_back(fmt::format("zero_secondary = {}", plan.zero_secondary));
  // These exchanges are waited for here: such a plan would train, and take another time.
  if (plan.overlap_tensor_parallel) words.emplace_back("overlap_tensor_parallel");
  if (plan.offload_optimizer > 0)
    words.push_back(fmt::format("offload_optimizer = {}", plan.offload_optimizer));
  if (plan.offload_activations > 0)
    words.push_back(fmt::format("offload_activations = {}", plan.offload_activations));
  // One rank's step is a graph on a GPU from its second on (Backend::stream), others' is not, nor
  // are steps of which each has another number of labels.
  const bool repeats = plan.cuda_graphs.whole_step() && plan.pp == 1 &&
                       backend == BackendKind::cuda &&
                       sample_kind(loaded.model) != SampleKind::masked_tokens;
  if (!plan.cuda_graphs.none() && !repeats)
    words.push_back("cuda_graphs = " + to_string(plan.cuda_graphs));
  if (plan.lengths.known()) words.push_back("lengths = " + to_text(plan.lengths));
  if (plan.optimizer.kind == OptimizerKind::muon) words.emplace_back("optimizer = muon");
  return words;
}

void list_what_runs(const ResolvedPlan& loaded, Replicas replicas, BackendKind backend,
                    Reasons& why) {
  const Plan& plan = loaded.plan;
  const std::vector<std::string> words = forecast_alone(loaded, backend);
  if (!words.empty()) {
    std::string list = words.front();
    for (std::size_t i = 1; i < words.size(); ++i)
      list += (i + 1 < words.size() ? ", " : " and ") + words[i];
    why.push_back(fmt::format("the plan has {}; that can be forecast, not run", list));
  }
  const bool divided = plan.tp > 1;
  if ((divided || plan.dp > 1) && replicas == Replicas::one) {
    why.push_back(fmt::format(
        "the plan has {} = {}; {} run as processes only (mpirun -n {} weir run)",
        divided ? "tp" : "dp", divided ? plan.tp : plan.dp,
        divided ? "the devices that divide layers" : "replicas", plan.pp * plan.tp * plan.dp));
  }
}

// Each thing once, with the first layer that has it; the first layer of all stands before them.
void list_kernels(const Model& model, BackendKind backend, Reasons& why) {
  std::vector<std::pair<std::string_view, std::string>> all;
  const SampleKind samples = sample_kind(model);
  for (const Layer& layer : model.layers) {
    for (const std::string_view what : lacking(layer, samples, backend)) {
      const auto same = [what](const auto& one) { return one.first == what; };
      if (std::none_of(all.begin(), all.end(), same)) all.emplace_back(what, layer.name);
    }
  }
  if (all.empty()) return;
  const std::string& first = all.front().second;
  std::string line = fmt::format("{}: {}: the {} backend has no kernels for {}", model.name, first,
                                 to_string(backend), all.front().first);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto& [what, layer] = all[i];
    line += fmt::format("{}{}{}", i + 1 < all.size() ? ", " : " and ", what,
                        layer == first ? "" : fmt::format(" ({})", layer));
  }
  why.push_back(line + "; it can be forecast, not trained or measured");
}

// The model as one of the plan's devices computes it.
Model of_a_device(const ResolvedPlan& loaded) {
  Model model = loaded.model;
  if (loaded.plan.tp == 1) return model;
  for (Layer& layer : model.layers) layer.shape = shard(layer.shape, loaded.plan.split());
  return model;
}

// Each thing once, with the first layer that has it.
void list_undivided(const ResolvedPlan& loaded, Reasons& why) {
  if (loaded.plan.tp == 1) return;
  std::set<std::string_view> told;
  for (const Layer& layer : loaded.model.layers) {
    const char* what = std::visit(UndividedPart{}, layer.shape);
    if (what == nullptr || !told.insert(what).second) continue;
    why.push_back(
        fmt::format("{}: {} not divided among devices: not with tp above 1", layer.name, what));
  }
}

// Rules that CUDA's kernels do not know.
void list_optimizer(const Optimizer& optimizer, BackendKind backend, Reasons& why) {
  if (backend != BackendKind::cuda) return;
  const auto refuse = [&why](std::string_view what) {
    why.push_back(fmt::format(
        "optimizer: the cuda backend has no kernels for {}; the cpu backend has", what));
  };
  if (optimizer.kind != OptimizerKind::sgd && optimizer.kind != OptimizerKind::adamw)
    refuse(to_string(optimizer.kind));
  if (optimizer.nesterov) refuse("nesterov");
}

void list_what_cuda_trains(const ResolvedPlan& loaded, BackendKind backend, Reasons& why) {
  if (backend != BackendKind::cuda) return;
  if (goes_directly(loaded.plan))
    why.emplace_back("skips: direct: the cpu backend sends them so, the cuda backend does not");
  if (loaded.plan.samples > 0) {
    why.emplace_back(
        "the cuda backend trains on micro-batches of one size: the plan's global_batch_size is "
        "none of b M D");
  }
}

// All in one line.
void refuse_for(const Reasons& why) {
  if (!why.empty()) throw MissingComponent(fmt::format("{}", fmt::join(why, "; and ")));
}

}  // namespace

void require_kernels(const Model& model, BackendKind backend) {
  Reasons why;
  list_kernels(model, backend, why);
  refuse_for(why);
}

namespace {

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

namespace {

[[noreturn]] void throw_forecast_only(const std::string& schedule) {
  throw MissingComponent(
      fmt::format("schedule: {} divides the vocabulary over the ranks, which is forecast only: no "
                  "backend runs its passes",
                  schedule));
}

}  // namespace

void require_whole_vocabulary(const ResolvedPlan& loaded) {
  if (loaded.schedule.shape.shards() > 0) throw_forecast_only(loaded.schedule.name);
}

void require_whole_vocabulary(const std::string& schedule) {
  if (divides_vocabulary(schedule)) throw_forecast_only(schedule);
}

void require_trainable(const ResolvedPlan& loaded, Replicas replicas, BackendKind backend) {
  require_whole_vocabulary(loaded);
  Reasons why;
  list_what_runs(loaded, replicas, backend, why);
  // Whether stages may be empty is asked only of plans that could be run otherwise.
  if (why.empty()) require_stages(loaded, Stack{});
  list_kernels(of_a_device(loaded), backend, why);
  list_undivided(loaded, why);
  list_optimizer(loaded.plan.optimizer, backend, why);
  list_what_cuda_trains(loaded, backend, why);
  // All reasons at once: whoever mends one should not find the next by another run.
  refuse_for(why);
  require_whole_images(loaded);
  for (const Layer& layer : loaded.model.layers) {
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

// Applies a stack's rules to the tensors of each layer.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack_part.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace weir {
namespace {

// Whole numbers of a block for one token.
double whole_width(Width width, const TransformerShape& b, std::int64_t keys) {
  const auto visits = static_cast<double>(b.experts > 1 ? b.experts_per_token : 1);
  // A token passes the experts it visits and the shared ones beside them.
  const auto ffn = static_cast<double>(b.ffn) * visits + static_cast<double>(b.shared_ffn);
  switch (width) {
    case Width::hidden:
      return static_cast<double>(b.hidden);
    case Width::query:
      return static_cast<double>(b.heads * b.head_dim);
    case Width::key_value:
      return static_cast<double>(b.kv_heads * (b.head_dim + value_dim(b)));
    case Width::context:
      return static_cast<double>(b.heads * value_dim(b));
    case Width::latents:
      return static_cast<double>(2 * (b.latent.query + b.latent.key_value) + b.latent.rotary);
    case Width::visits:
      return b.experts > 1 ? static_cast<double>(b.hidden) * visits : 0;
    case Width::up:
      return (b.gated ? 2 : 1) * ffn;
    case Width::ffn:
      return ffn;
    case Width::heads:
      return static_cast<double>(b.heads);
    case Width::scores:
      return b.attention == AttentionKind::fused ? 0 : static_cast<double>(b.heads * keys);
    case Width::token:
      return 1;
    case Width::experts:
      return b.experts > 1 ? static_cast<double>(b.experts) : 0;
    case Width::vocabulary:
      break;
  }
  return 0;
}

// Of them those of the shared experts.
double whole_shared_width(Width width, const TransformerShape& b) {
  if (b.experts <= 1) return 0;
  const auto shared = static_cast<double>(b.shared_ffn);
  if (width == Width::up) return (b.gated ? 2 : 1) * shared;
  return width == Width::ffn ? shared : 0;
}

bool is_divided(Share share, const Split& split) {
  return share == Share::tensor || (share == Share::sequence && split.sequence_parallel);
}

// Shared experts are made again with all experts, or by themselves (Megatron-Core,
// transformer/moe/moe_layer.py, shared_experts_compute), never by what rebuilds an activation of
// the others.
ModuleSet of_shared(ModuleSet rebuilt_by) {
  if (!rebuilt_by.meets(BlockModule::moe)) return {};
  ModuleSet modules = BlockModule::moe;
  modules |= BlockModule::shared_experts;
  return modules;
}

// What is kept for a product in 8 bits, unless its weights are frozen: adapters read the numbers
// themselves.
double bytes_of(const KeptRule& rule, const Treatment& treated, const Stack& stack) {
  const bool fp8 = (stack.fp8 || treated.fp8 != Fp8Recipe::none) && !treated.frozen;
  if (!fp8 || rule.fp8 == 0) return rule.bytes;
  // A scale of 8 bits for 32 numbers, or of 32 bits for 128: as much for both.
  const bool scales = treated.fp8 == Fp8Recipe::mxfp8 || treated.fp8 == Fp8Recipe::blockwise;
  return rule.fp8 + (scales ? 1.0 / 32 : 0);
}

void keep(LayerTensors& tensors, const Layer& layer, std::int64_t seq_length, Dtype dtype,
          const Split& split, const Stack& stack) {
  const auto& block = std::get<TransformerShape>(layer.shape);
  tensors.saved.clear();
  if (!layer.treated.backward) return;
  const auto tokens = static_cast<double>(split.tokens(seq_length));
  for (const KeptRule& rule : stack.memory.block) {
    if (rule.before_activation && block.activation == Activation::relu) continue;
    if (!is_of(rule.blocks, block)) continue;
    if (rule.weights_of && layer.treated.frozen) continue;
    const auto add = [&](const std::string& tensor, double width, ModuleSet rebuilt_by) {
      const double bytes = width * tokens * bytes_of(rule, layer.treated, stack);
      tensors.saved.push_back({tensor, static_cast<std::int64_t>(std::ceil(bytes)),
                               rule.until_i ? KeptUntil::I : KeptUntil::W, rebuilt_by});
    };
    const double width = width_of(rule.width, rule.share, block, split, seq_length);
    const double shared = shared_width_of(rule.width, rule.share, block, split);
    if (rule.rebuilt_by.empty() || shared == 0) {
      add(rule.tensor, width, rule.rebuilt_by);
      continue;
    }
    add(rule.tensor, width - shared, rule.rebuilt_by);
    add(rule.tensor + ", shared", shared, of_shared(rule.rebuilt_by));
  }
  std::ranges::copy(kept_by_adapters(layer, seq_length, dtype, split),
                    std::back_inserter(tensors.saved));
  std::ranges::copy(kept_by_prediction(layer, seq_length, dtype, split),
                    std::back_inserter(tensors.saved));
}

// The logits' softmax stays until I, and the weight product is made with it: on MI300X schedules
// that put W off hold no more logits than the others. What F and I have of them beside that at
// their worst is workspace.
void keep_logits(LayerTensors& tensors, const HeadShape& head, std::int64_t seq_length,
                 const Split& split, const StackMemory& memory) {
  const std::int64_t share = (head.vocabulary + split.tp - 1) / split.tp;
  const std::int64_t positions =
      head.pooled ? 1 : split.tokens(seq_length) * (1 + head.predictions);
  const auto logits = static_cast<double>(positions * share);
  // The losses come one after the other.
  const double one = logits / static_cast<double>(1 + head.predictions);
  const auto bytes = [](double numbers, double each) {
    return static_cast<std::int64_t>(numbers * each);
  };
  // In place of the executor's own, which the tensors had so far.
  std::erase_if(tensors.saved, [](const KeptTensor& kept) { return kept.name == "logits"; });
  tensors.saved.push_back({"logits", bytes(logits, memory.logits_kept), KeptUntil::I});
  const auto beside = [&](double worst) {
    return bytes(one, std::max(0.0, worst - memory.logits_kept));
  };
  tensors.workspace_f_bytes_per_sample += beside(memory.logits_forward);
  tensors.workspace_i_bytes_per_sample += beside(memory.logits_backward);
}

}  // namespace

bool is_of(Blocks blocks, const TransformerShape& block) {
  const bool experts = block.experts > 1, latent = block.latent.key_value > 0;
  switch (blocks) {
    case Blocks::all:
      break;
    case Blocks::dense:
      return !experts;
    case Blocks::experts:
      return experts;
    case Blocks::latent:
      return latent;
    case Blocks::direct:
      return !latent;
    case Blocks::rotary:
      return block.rotary;
    case Blocks::gated:
      return block.gated;
    case Blocks::drops_out:
      return block.residual_dropout > 0;
    case Blocks::drops_scores:
      return block.attention_dropout > 0;
    case Blocks::plain_experts:
      return experts && !block.gated;
    case Blocks::biased_experts:
      return experts && block.mlp_bias;
  }
  return true;
}

double width_of(Width width, Share share, const TransformerShape& block, const Split& split,
                std::int64_t keys) {
  const bool divided = is_divided(share, split);
  // What experts keep of the tokens that reach them.
  const bool of_experts =
      block.experts > 1 && (width == Width::visits || width == Width::up || width == Width::ffn);
  const double load = of_experts ? split.expert_load : 1;
  // Where fewer devices divide an expert, fewer have the same visits.
  const double parts = divided ? split.tp : width == Width::visits ? 1 / split.expert_share() : 1;
  // Shared experts have every token, however uneven the others' load is.
  const double shared = whole_shared_width(width, block);
  return ((whole_width(width, block, keys) - shared) * load + shared) / parts;
}

double shared_width_of(Width width, Share share, const TransformerShape& block,
                       const Split& split) {
  return whole_shared_width(width, block) / (is_divided(share, split) ? split.tp : 1);
}

std::vector<BlockModule> rebuildable_modules(const Model& model, const Stack& stack,
                                             ModuleSet already) {
  ModuleSet all;
  for (const Layer& layer : model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    for (const KeptRule& rule : stack.memory.block) {
      if (!is_of(rule.blocks, *block)) continue;
      const double shared = whole_shared_width(rule.width, *block);
      const ModuleSet by = of_shared(rule.rebuilt_by);
      if (!rule.rebuilt_by.meets(already) && whole_width(rule.width, *block, 1) > shared)
        all |= rule.rebuilt_by;
      if (!by.meets(already) && shared > 0) all |= by;
    }
  }
  std::vector<BlockModule> modules;
  for (const auto& [module, name] : kBlockModules) {
    if (module != BlockModule::core_attn && all.meets(module)) modules.push_back(module);
  }
  return modules;
}

ModelPart stack_part(const Model& model, std::int64_t seq_length, Dtype dtype, const Split& split,
                     const Stack& stack) {
  ModelPart part = model_part(model, seq_length, dtype, split);
  if (stack.own_tensors) return part;
  for (std::size_t kind = 0; kind < part.kinds.size(); ++kind) {
    LayerTensors& tensors = part.kinds[kind].tensors;
    const Layer& layer = model.layers[static_cast<std::size_t>(part.first[kind])];
    const LayerShape& shape = layer.shape;
    if (std::holds_alternative<TransformerShape>(shape))
      keep(tensors, layer, seq_length, dtype, split, stack);
    if (const auto* head = std::get_if<HeadShape>(&shape); head != nullptr && head->vocabulary > 0)
      keep_logits(tensors, *head, seq_length, split, stack.memory);
  }
  return part;
}

}  // namespace weir

// Mixtures of experts in NVIDIA's tables of Megatron-Bridge: Qwen3-30B, gpt-oss-120B, DeepSeek-V3
// and Kimi K2, by tokens a second. Routing is forced to be even in all of them, experts are not
// divided by tensor parallelism, and what experts exchange travels in 16 bits.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/jobs/job/job.hpp"
#include "tools/jobs/megatron/layout/layout.hpp"
#include "tools/reproduce/measured/measured_run.hpp"

namespace weir {
namespace {

// A model by its decoder; `predicts`: one layer that predicts a further token is trained with it.
struct ExpertModel {
  Decoder decoder;
  std::int64_t window = 0;  // of every other block
  bool predicts = false;
};

Decoder llama_with_experts(std::int64_t vocabulary, TransformerShape block, std::int64_t blocks) {
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  block.gated = block.rotary = true;
  return usual_decoder({.vocabulary = vocabulary, .hidden = block.hidden}, block, blocks);
}

// Sizes: Qwen/Qwen3-30B-A3B and openai/gpt-oss-120b config.json, as transformers 5.23 reads them.
ExpertModel qwen3_30b() {
  TransformerShape block{
      .hidden = 2048, .heads = 32, .kv_heads = 4, .head_dim = 128, .ffn = 768, .experts = 128};
  block.experts_per_token = 8;
  block.qk_norm = true;
  block.qkv_bias = block.output_bias = block.mlp_bias = false;
  return {.decoder = llama_with_experts(151936, block, 48)};
}

ExpertModel gpt_oss_120b() {
  TransformerShape block{
      .hidden = 2880, .heads = 64, .kv_heads = 8, .head_dim = 64, .ffn = 2880, .experts = 128};
  block.experts_per_token = 4;
  block.router_bias = block.sinks = true;
  return {.decoder = llama_with_experts(201088, block, 36), .window = 128};
}

// deepseek-ai/DeepSeek-V3@9b4e978: inference/configs/config_671B.json; Kimi K2 is its design with
// other numbers (moonshotai's README; AI-Hypercomputer/maxtext@e591f30).
struct LatentSizes {
  std::int64_t vocabulary, heads, experts, dense, groups;  // a token visits half of these
};
ExpertModel deepseek(const LatentSizes& sizes, bool predicts) {
  // Sizes that the models share; what differs between them is the caller's.
  TransformerShape dense{.hidden = 7168,
                         .heads = sizes.heads,
                         .kv_heads = sizes.heads,
                         .head_dim = 192,
                         .ffn = 18432,
                         .activation = Activation::silu,
                         .norm = NormKind::rms_norm,
                         .gated = true,
                         .qkv_bias = false,
                         .output_bias = false,
                         .mlp_bias = false,
                         .rotary = true};
  dense.latent = {.query = 1536, .key_value = 512, .rotary = 64, .value = 128};
  // Dense blocks are the first ones, experts the rest.
  TransformerShape sparse = dense;
  sparse.experts = sizes.experts;
  sparse.experts_per_token = 8;
  sparse.ffn = sparse.shared_ffn = 2048;
  sparse.router_bias = true;
  sparse.expert_groups = sizes.groups;
  sparse.groups_per_token = sizes.groups / 2;
  Decoder decoder = llama_with_experts(sizes.vocabulary, sparse, 61);
  decoder.first_block = dense;
  decoder.first_blocks = sizes.dense;
  return {.decoder = decoder, .predicts = predicts};
}

std::optional<ExpertModel> expert_model(const std::string& name) {
  if (name.starts_with("Qwen3_30B")) return qwen3_30b();
  if (name == "GPT OSS 120B") return gpt_oss_120b();
  if (name == "Kimi_K2") return deepseek({163840, 64, 384, 1, 0}, false);
  const bool without = name == "DeepSeekV3 (w/o MTP)";
  if (name.starts_with("DeepSeekV3")) return deepseek({129280, 128, 256, 3, 8}, !without);
  return std::nullopt;
}

// A layer that predicts a further token is taken as one block more, and its pass of the head as a
// head twice as wide.
std::shared_ptr<const Model> model_of(ExpertModel named, std::int64_t sequence) {
  if (named.predicts) {
    ++named.decoder.blocks;
    named.decoder.head.vocabulary *= 2;
  }
  Model model = decoder_model(named.decoder, sequence);
  for (std::size_t i = 1; named.window > 0 && i + 2 < model.layers.size(); i += 2)
    std::get<TransformerShape>(model.layers[i].shape).window = named.window;
  set_attention(model, AttentionKind::fused);
  return std::make_shared<const Model>(std::move(model));
}

int one_or(const PublishedRow& c, const std::string& column) {
  const std::string& text = c.text_or_empty(column);
  return text.empty() || text == "n/a" || text == "None" ? 1 : c.integer(column);
}

// "flex:deepep" is the stack's own way; older releases do not say.
ExpertDispatch dispatch_of(const std::string& text) {
  return text == "alltoall" ? ExpertDispatch::alltoall : ExpertDispatch::by_stack;
}

// "mla_up_proj;mlp".
Recompute recompute_of(const std::string& text) {
  std::string word = "selective:" + text;
  std::ranges::replace(word, ';', '+');
  return text.empty() ? Recompute{} : parse_recompute_word(word).value_or(Recompute{});
}

Plan expert_plan(const PublishedRow& c) {
  Plan plan;
  plan.seq_length = c.integer("sequence");
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.tp = one_or(c, "tp");
  plan.pp = one_or(c, "pp");
  plan.cp = one_or(c, "cp");
  plan.vpp = one_or(c, "vp");
  plan.ep = c.integer("ep");
  plan.expert_dispatch = dispatch_of(c.text_or_empty("moe_dispatcher"));
  plan.recompute = recompute_of(c.text_or_empty("recompute_modules"));
  // Where experts are divided otherwise than the rest, it is said.
  if (const int etp = one_or(c, "etp"); etp != plan.tp) plan.etp = etp;
  plan.dp = c.share("gpus", plan.tp * plan.pp * plan.cp);
  plan.micro_batch_size = c.integer("micro_batch");
  plan.microbatches = c.share("global_batch", plan.dp * plan.micro_batch_size);
  plan.sequence_parallel = plan.tp > 1;
  // Fully sharded is ZeRO-3; else the optimizer's state alone is.
  plan.zero = c.text_or_empty("fsdp") == "True" ? 3 : 1;
  // With moe_a2a_overlap as scripts/performance/utils/overrides.py sets it.
  plan.overlap_experts = plan.ep > 1 && c.text_or_empty("moe_a2a_overlap") == "True";
  plan.overlap_tensor_parallel = plan.tp > 1 && plan.overlap_experts;
  plan.overlap_grad_reduce = plan.overlap_param_gather = plan.replicas() > 1;
  plan.schedule = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  plan.slots = 0;
  return plan;
}

// What a plan does not carry of a row.
std::string beyond_expert_plans(const PublishedRow& c) {
  const std::string& precision = c.text_or_empty("precision");
  const std::string& modules = c.text_or_empty("recompute_modules");
  if (!c.text("match").starts_with("exact")) return "its recipe is not known for sure";
  if (precision.empty()) return "its precision is not stated";
  if (precision.find("FP4") != std::string::npos) return "its products are in 4 bits";
  if (!c.text_or_empty("cpu_offload_layers").empty())
    return "it keeps activations in the host's memory";
  if (c.text("model").find("tokendrop") != std::string::npos) return "it drops tokens";
  if (modules == "moe" || modules.starts_with("moe;")) return "it exchanges tokens again";
  return "";
}

std::string expert_cluster(const PublishedRow& c) {
  static const std::map<std::string, std::string> kClusters{{"DGX-H100", "dgx-h100"},
                                                            {"DGX-B200", "dgx-b200"},
                                                            {"DGX-B300", "dgx-b300"},
                                                            {"DGX-GB200", "gb200-nvl72"},
                                                            {"DGX-GB300", "gb300-nvl72"}};
  return named(kClusters, c, "system");
}

// Megatron-Bridge's layouts: as text, or as many blocks a stage as the last one leaves room for
// (scripts of release 0.4: recipes/deepseek/deepseek_v3.py). The layer that predicts is the last
// stage's.
void place_blocks(const PublishedRow& c, const ExpertModel& model, MeasuredRun& run) {
  const auto stages = static_cast<std::size_t>(run.plan.stages());
  const std::int64_t blocks = model.decoder.blocks;
  std::string layout = c.text_or_empty("pp_layout");
  layout.resize(std::min(layout.size(), layout.find(' ')));
  std::vector<int> of_stages;
  if (!layout.empty()) {
    of_stages = parse_layout(layout, "megatron_bridge_experts.csv", "pp_layout").blocks;
  } else {
    // Equal blocks a stage, the last one what is left over.
    const auto each = (blocks + run.plan.stages() - 1) / run.plan.stages();
    for (std::size_t s = 0; s < stages; ++s) {
      const std::int64_t left = blocks - each * static_cast<std::int64_t>(s);
      of_stages.push_back(static_cast<int>(std::clamp<std::int64_t>(left, 0, each)));
    }
  }
  std::int64_t sum = 0;
  for (const int n : of_stages) sum += n;
  // A layout that does not add up to the model is told, not forecast.
  if (of_stages.size() != stages || sum != blocks) {
    run.unforeseen = "its layout is not of its stages";
    return;
  }
  run.plan.boundaries = boundaries_of_blocks(of_stages);
}

MeasuredRun expert_run(const PublishedRow& c) {
  MeasuredRun run;
  run.model_name = c.text("model");
  run.plan = expert_plan(c);
  const Plan& plan = run.plan;
  run.row = fmt::format("{} {} {} on {} {}, t={} p={} v={} e={} b={} B={}", run.model_name,
                        c.text("release"), c.text_or_empty("precision"), c.text("gpus"),
                        c.text("system"), plan.tp, plan.pp, plan.vpp, plan.ep,
                        plan.micro_batch_size, plan.global_batch_size());
  const auto named_model = expert_model(run.model_name);
  // Its shape must be known: a guess would price another model.
  run.unforeseen = named_model ? beyond_expert_plans(c) : "the shape of its model is not stated";
  set_machine(run, expert_cluster(c), "megatron-core");
  const double tokens = static_cast<double>(plan.global_batch_size() * plan.seq_length);
  run.step = {"tokens/s a GPU", c.printed("tokens_per_s_per_gpu"), tokens / plan.devices(), true};
  // A plan that cannot be forecast has no model, and is told with its reason.
  if (!run.unforeseen.empty()) return run;
  run.model = model_of(*named_model, plan.seq_length);
  if (const auto misfit = cannot_divide(*run.model, plan)) run.unforeseen = misfit->reason;
  place_blocks(c, *named_model, run);
  set_products(run, bridge_recipe(c.text("precision")));
  // Whole steps are replayed: the host launches nothing between kernels.
  if (c.text_or_empty("cuda_graph_impl") == "full_iteration")
    run.cluster.stack.time.launch = Seconds(0);
  return run;
}

}  // namespace

std::vector<MeasuredRun> read_megatron_bridge_experts(const Publications& published) {
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("megatron_bridge_experts.csv"))
    runs.push_back(expert_run(c));
  return runs;
}

}  // namespace weir

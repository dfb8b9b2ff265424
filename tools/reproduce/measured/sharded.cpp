// Sharded data parallelism: torchtitan's Llama 3.1 (FSDP2, and with tensor, context and pipeline
// parallelism) and llm-foundry's MPT (FSDP by Composer). A step is one micro-batch of torchtitan's
// and GradAccum of llm-foundry's.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/measured/shapes.hpp"

namespace weir {
namespace {

// torchtitan divides a local batch into as many micro-batches as stages ranks
// (pipeline_parallel_microbatches' default).
Plan torchtitan_plan(const PublishedRow& c) {
  Plan plan;
  plan.seq_length = c.integer("sequence");
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.tp = c.integer("tp");
  plan.pp = c.integer("pp");
  plan.cp = c.integer("cp");
  plan.dp = c.integer("fsdp");
  plan.vpp = c.text("schedule").starts_with("Interleaved") ? 2 : 1;
  plan.microbatches = plan.pp;
  plan.micro_batch_size = c.share("local_batch", plan.pp);
  plan.sequence_parallel = plan.tp > 1;
  // FSDP spans replicas and context parallelism.
  plan.zero = plan.dp * plan.cp > 1 ? 3 : 0;
  const std::string& technique = c.text("technique");
  plan.overlap_tensor_parallel = technique.find("syncTP") != std::string::npos ||
                                 technique.find("async TP") != std::string::npos;
  plan.overlap_grad_reduce = plan.replicas() > 1;
  plan.schedule = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  plan.slots = 0;
  plan.recompute.mode =
      c.text("recompute") == "full" ? RecomputeMode::full : RecomputeMode::selective;
  return plan;
}

// llm-foundry's yamls of the same names (scripts/train/yamls/pretrain); their parameters are those
// printed beside the rows.
const std::map<std::string, DecoderSizes>& mpt_sizes() {
  constexpr std::int64_t kVocabulary = 50368;
  static const std::map<std::string, DecoderSizes> kSizes{
      {"125m", {12, 768, 12, kVocabulary}},  {"350m", {24, 1024, 16, kVocabulary}},
      {"760m", {24, 1536, 12, kVocabulary}}, {"1b", {24, 2048, 16, kVocabulary}},
      {"3b", {32, 2560, 20, kVocabulary}},   {"7b", {32, 4096, 32, kVocabulary}},
      {"13b", {40, 5120, 40, kVocabulary}},  {"30b", {48, 7168, 56, kVocabulary}},
      {"70b", {80, 8192, 64, kVocabulary}}};
  return kSizes;
}

Plan mpt_plan(const PublishedRow& c) {
  Plan plan;
  plan.seq_length = c.integer("SeqLen (T)");
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.dp = c.integer("# GPUs");
  plan.micro_batch_size = c.integer("MicroBatchSize");
  plan.microbatches = c.integer("GradAccum");
  plan.zero = c.text("Sharding Strategy") == "FULL_SHARD" ? 3 : 2;
  plan.overlap_grad_reduce = true;
  plan.schedule = "1f1b";
  plan.slots = 0;
  if (c.text("Activation Checkpointing") == "True") plan.recompute.mode = RecomputeMode::full;
  return plan;
}

// Losses have been compiled since 2025, the rows of H200 among them.
std::string torchtitan_stack(const PublishedRow& c, bool of_2025) {
  if (c.text("compile") != "True") return "torchtitan-eager";
  return of_2025 ? "torchtitan" : "torchtitan-2024";
}

std::string mpt_cluster(const PublishedRow& c) {
  static const std::map<std::string, std::string> kClusters{
      {"a100_40gb", "a100-40gb-roce"}, {"a100_80gb", "a100-80gb-roce"}, {"h100_80gb", "dgx-h100"}};
  return named(kClusters, c, "GPU");
}

}  // namespace

std::vector<MeasuredRun> read_torchtitan(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("torchtitan.csv")) {
    MeasuredRun run;
    run.plan = torchtitan_plan(c);
    const Plan& plan = run.plan;
    run.model_name = c.text("model");
    run.row = fmt::format("{} {} {}{}{}{}, d={} t={} p={} c={} s={}", run.model_name,
                          c.text("technique"), c.text("precision"),
                          c.text("compile") == "True" ? "" : " eager", plan.pp > 1 ? " " : "",
                          c.text("schedule"), plan.dp, plan.tp, plan.pp, plan.cp, plan.seq_length);
    const double tokens = static_cast<double>(plan.global_batch_size() * plan.seq_length);
    run.step = PrintedStep{"tokens/s a GPU", c.printed("tokens_per_s_per_gpu"),
                           tokens / plan.devices(), true};
    run.memory_gib = c.printed_or_none("memory_gib");
    const DecoderSizes* sizes = known_decoder(run.model_name);
    // Only these shapes are read: others would be forecast as the wrong model.
    if (sizes == nullptr) c.fail("model", "expected a Llama 3.1");
    run.model = shelf.get(*sizes, plan.seq_length, AttentionKind::fused);
    const bool h200 = c.text("hardware").starts_with("H200");
    set_machine(run, h200 ? "dgx-h200" : "h100-96gb", torchtitan_stack(c, h200));
    // torchao's scales are of each tensor itself (torchtitan/components/quantization/float8.py);
    // two rows have them of each row, for which there is no word: priced the same, though those are
    // gathered in 16 bits.
    const bool float8 = c.text("precision").starts_with("float8");
    set_products(run, float8 ? Fp8Recipe::tensorwise : Fp8Recipe::none);
    place_stages(run);
    // What the degrees do not make of the devices is told, not forecast.
    if (plan.devices() != c.integer("gpus")) run.unforeseen = "its degrees do not make its devices";
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MeasuredRun> read_llm_foundry(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("llm_foundry_mpt_fsdp.csv")) {
    MeasuredRun run;
    run.plan = mpt_plan(c);
    const Plan& plan = run.plan;
    run.model_name = "MPT-" + c.text("Model");
    run.row =
        fmt::format("{} s={} on {} {} {}, b={} M={}{}", run.model_name, plan.seq_length, plan.dp,
                    c.text("GPU"), c.text("Precision"), plan.micro_batch_size, plan.microbatches,
                    plan.recompute.mode == RecomputeMode::full ? " re-materialised" : "");
    run.step = PrintedStep{"tokens/s", c.printed("Throughput (T/s)"),
                           c.number("GlobalBatchSize (T)"), true};
    run.model = shelf.get(named(mpt_sizes(), c, "Model"), plan.seq_length, AttentionKind::fused);
    set_machine(run, mpt_cluster(c), "llm-foundry");
    set_products(run, c.text("Precision") == "amp_fp8" ? Fp8Recipe::delayed : Fp8Recipe::none);
    place_stages(run);
    // Offloading is of memory that this forecast does not have.
    if (c.text("Activation CPUOffload") == "True")
      run.unforeseen = "it keeps activations in the host's memory";
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir

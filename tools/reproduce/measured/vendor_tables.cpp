// NVIDIA's tables of Megatron-Core's throughput: Megatron-Bridge's recipes, NeMo 24.07's summary,
// and the recipes for clouds.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/reproduce/measured/megatron_core_run.hpp"

namespace weir {
namespace {

int integer_or_one(const PublishedRow& c, const std::string& column) {
  const std::string& text = c.text_or_empty(column);
  return text.empty() || text == "n/a" || text == "None" ? 1 : c.integer(column);
}

PrintedStep tokens_a_device(const Printed& printed, const MegatronCoreJob& job) {
  const double tokens = 1.0 * job.global_batch * static_cast<double>(job.sequence) / job.gpus;
  return {"tokens/s a GPU", printed, tokens, true};
}

// What a plan does not carry of a recipe.
std::string beyond_plans(const PublishedRow& c) {
  const std::string& precision = c.text("precision");
  if (c.text("match") != "exact") return "its recipe is not known for sure";
  if (precision.empty()) return "its precision is not stated";
  if (precision.find("FP4") != std::string::npos) return "its products are in 4 bits";
  if (!c.text("cpu_offload_layers").empty()) return "it keeps activations in the host's memory";
  if (!c.text_or_empty("recompute_layers").empty())
    return "it re-materialises some layers of a stage only";
  return "";
}

// "DGX-GB200" and the like.
std::string bridge_cluster(const PublishedRow& c) {
  const std::string& system = c.text("system");
  if (system == "DGX-H100") return "dgx-h100";
  if (system == "DGX-B200") return "dgx-b200";
  if (system == "DGX-GB200") return "gb200-nvl72";
  return "gb300-nvl72";
}

// Transformer Engine's own where the table says no more.
Fp8Recipe recipe_of_name(const std::string& name) {
  return name.find("FP8") != std::string::npos ? Fp8Recipe::delayed : Fp8Recipe::none;
}

}  // namespace

std::vector<MeasuredRun> read_megatron_bridge(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("megatron_bridge_recipes.csv")) {
    MegatronCoreJob job;
    job.model = c.text("model");
    // Other families are read by their own case.
    if (!job.model.starts_with("LLAMA")) continue;
    job.cluster = bridge_cluster(c);
    job.gpus = c.integer("gpus");
    job.sequence = c.integer("sequence");
    job.tp = integer_or_one(c, "tp");
    job.pp = integer_or_one(c, "pp");
    job.cp = integer_or_one(c, "cp");
    job.vpp = integer_or_one(c, "vp");
    job.micro_batch_size = c.integer("micro_batch");
    job.global_batch = c.integer("global_batch");
    job.fp8 = bridge_recipe(c.text("precision"));
    job.zero = c.text_or_empty("fsdp") == "True" ? 3 : 1;
    MeasuredRun run = megatron_core_run(job, shelf);
    run.row = fmt::format("{} {} {} on {} {}, t={} p={} c={} v={} b={} B={}", job.model,
                          c.text("release"), c.text("precision"), c.text("gpus"), c.text("system"),
                          job.tp, job.pp, job.cp, job.vpp, job.micro_batch_size, job.global_batch);
    run.step = tokens_a_device(c.printed("tokens_per_s_per_gpu"), job);
    // What the recipe has and a plan does not.
    if (const std::string why = beyond_plans(c); !why.empty()) run.unforeseen = why;
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MeasuredRun> read_nemo(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("nemo_2407_h100.csv")) {
    MegatronCoreJob job;
    job.model = c.text("Model");
    job.cluster = "dgx-h100";
    job.gpus = c.integer("#-GPUs");
    // A task is fine-tuning: its sequences are packed to a length of their own.
    const bool tuning = !c.text("Task").empty();
    job.sequence = tuning ? 4096 : c.integer("Sequence Length");
    job.tp = integer_or_one(c, "TP");
    job.pp = integer_or_one(c, "PP");
    job.cp = integer_or_one(c, "CP");
    job.vpp = integer_or_one(c, "VP");
    job.micro_batch_size = c.integer("MBS");
    job.global_batch = c.integer("GBS");
    job.fp8 = recipe_of_name(c.text("system"));
    MeasuredRun run = megatron_core_run(job, shelf);
    run.row = fmt::format("{} on {}, t={} p={} c={} v={} b={} B={}", job.model, job.gpus, job.tp,
                          job.pp, job.cp, job.vpp, job.micro_batch_size, job.global_batch);
    run.step = tokens_a_device(c.printed("Tokens / sec / GPU"), job);
    // Packed sequences cost what no plan of one length says.
    if (tuning) run.unforeseen = "fine-tuning of packed sequences";
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MeasuredRun> read_dgx_cloud(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("dgxc_h100.csv")) {
    const std::string& name = c.text("model");
    // A row without degrees states no layout.
    if (c.text("tp").empty()) continue;
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    MegatronCoreJob job;
    job.model = has("405b")   ? "LLAMA3.1 405B"
                : has("70b")  ? "LLAMA3.1 70B"
                : has(" 8b")  ? "LLAMA3.1 8B"
                : has("NeMo") ? "GPT3 175B"
                              : name;
    job.cluster = "dgx-h100";
    job.gpus = c.integer("gpus");
    job.sequence = has("NeMo") ? 2048 : 8192;
    job.tp = integer_or_one(c, "tp");
    job.pp = integer_or_one(c, "pp");
    job.cp = integer_or_one(c, "cp");
    job.vpp = integer_or_one(c, "vp");
    job.micro_batch_size = integer_or_one(c, "micro_batch");
    if (!c.text("grad_acc").empty()) job.microbatches = c.integer("grad_acc");
    if (!c.text("global_batch").empty()) job.global_batch = c.integer("global_batch");
    job.fp8 = recipe_of_name(name);
    MeasuredRun run = megatron_core_run(job, shelf);
    run.row = fmt::format("{} on {}, t={} p={} c={} v={} b={} M={}", name, job.gpus, job.tp, job.pp,
                          job.cp, job.vpp, job.micro_batch_size, run.plan.microbatches);
    if (const auto step = parse_printed(c.text("step_s"))) run.step = PrintedStep{"step, s", *step};
    // A time that is no number cannot be held against one.
    if (!run.step) run.unforeseen = "its time cannot be read";
    if (has("Finetuning")) run.unforeseen = "fine-tuning of packed sequences";
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir

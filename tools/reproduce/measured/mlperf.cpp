// MLPerf Training: GPT-3 175B and Llama 3.1 405B by NeMo, products in FP8, interleaved 1F1B. Runs
// of one configuration are one row, their median.
//
// GPT-3 in round 3.1 leaves the number of chunks to its default of 12
// (training_results_v3.1@f33f944, NVIDIA/benchmarks/gpt3/implementations/pytorch/conf/custom.yaml).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "tools/reproduce/measured/megatron_core_run.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

constexpr const char* kMlperfTable = "mlperf_gpt3_llama405b.csv";

// "eos" of "eos-dfw_n64_ngc25.01_nemo", "nebius" of "nebius_soperator_8xH200_n128_...".
std::string machine_of(const PublishedRow& c) {
  const std::string& system = c.text("system");
  return system.substr(0, system.find_first_of("-_"));
}

// The cluster file of its devices, by what the configuration's name says of them.
std::string cluster_of(const PublishedRow& c) {
  const std::string machine = machine_of(c);
  if (machine == "carina" || machine == "tyche") return "gb200-nvl72";
  return machine == "nebius" ? "dgx-h200" : "dgx-h100";
}

MegatronCoreJob job_of(const PublishedRow& c) {
  const bool llama = c.text("benchmark") == "llama31_405b";
  MegatronCoreJob job;
  job.model = llama ? "LLAMA3.1 405B" : "GPT3 175B";
  job.cluster = cluster_of(c);
  job.gpus = c.integer("gpus");
  job.sequence = c.integer("sequence");
  job.tp = c.integer("tp");
  job.pp = c.integer("pp");
  job.cp = c.integer("cp");
  // Rounds that state none have the code's own default.
  job.vpp = c.text("vp").empty() ? 12 : c.integer("vp");
  job.micro_batch_size = c.integer("micro_batch");
  job.microbatches = c.integer("micro_batches");
  job.global_batch = c.integer("global_batch");
  job.fp8 = Fp8Recipe::delayed;  // Transformer Engine's own; the logs do not say
  return job;
}

}  // namespace

std::vector<MeasuredRun> read_mlperf(const Publications& published) {
  DecoderShelf shelf;
  std::map<std::string, std::vector<PublishedRow>> configurations;
  for (const PublishedRow& c : published.table(kMlperfTable)) {
    configurations[fmt::format("{} round {} {} on {}", c.text("benchmark"), c.text("round"),
                               c.text("system"), c.text("gpus"))]
        .push_back(c);
  }
  std::vector<MeasuredRun> runs;
  for (const auto& [name, repeats] : configurations) {
    const PublishedRow& c = repeats.front();
    MeasuredRun run = megatron_core_run(job_of(c), shelf);
    run.row = fmt::format("{}, M={}", name, run.plan.microbatches);
    // A grid is one machine and one layout, so that rows differ in one choice.
    run.grid = fmt::format("{} {} {} t={} p={} v={} b={}", c.text("benchmark"), c.text("round"),
                           machine_of(c), run.plan.tp, run.plan.pp, run.plan.vpp,
                           run.plan.micro_batch_size);
    std::vector<double> steps;
    for (const PublishedRow& one : repeats) steps.push_back(one.number("step_s_median"));
    // The median is printed nowhere: its last digit is that of the rows.
    run.step = PrintedStep{"step, s", {median(steps), c.printed("step_s_median").last_digit}};
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir

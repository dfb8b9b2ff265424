// Measured steps of A100s, forecast as `weir simulate --cluster
// tools/examples/clusters/dgx-a100.json` does with no costs of one's own: what a user gets who has
// measured nothing. Nothing is fitted here. The cluster's kernel rates are other rows' (`weir
// reproduce kernel-rates`), but its bandwidth's efficiency was first found on Korthikanti's 22B
// layer, so the 22B steps are marked calibrated and every other is predicted.
//
// Each job's plan is what its paper states; a job has as many nodes of eight as its devices fill.
// vTrain states 800 Gb/s between nodes, half of a DGX A100's.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tools/jobs/job/job.hpp"
#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/measured/shapes.hpp"
#include "tools/reproduce/reproduction.hpp"
#include "tools/reproduce/zero_bubble.hpp"

namespace weir {
namespace {

constexpr std::int64_t kPaperVocabulary = 51200, kZeroBubbleVocabulary = 50257;

// GPT with a tied head, MLPs of 4 h.
Model gpt(std::int64_t heads, std::int64_t hidden, std::int64_t layers, std::int64_t sequence,
          std::int64_t vocabulary) {
  return decoder_of({layers, hidden, heads, vocabulary}, sequence, AttentionKind::unfused);
}

// The run of a plan on a DGX A100 whose stages have `blocks` blocks; none: equal numbers, and one
// more in the first where that leaves a rest.
MeasuredRun run_of(Plan plan, const Model& model, const std::string& stack,
                   std::vector<int> blocks = {}) {
  MeasuredRun run;
  const auto layers = static_cast<int>(model.layers.size()) - 3;
  for (int s = 0; blocks.size() < static_cast<std::size_t>(plan.stages()); ++s)
    blocks.push_back(layers / plan.stages() + (s < layers % plan.stages() ? 1 : 0));
  plan.seq_length = model.seq_length;
  plan.dtype = Dtype::fp16;
  plan.boundaries = boundaries_of_blocks(blocks);
  plan.slots = 0;
  run.plan = std::move(plan);
  run.model = std::make_shared<const Model>(model);
  set_machine(run, "dgx-a100", stack);
  return run;
}

// Mean error of the rows with a pipeline, which the predictor published with them is judged by.
std::string pipelines_note(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += error;
  return fmt::format("Of vTrain's rows {} have a pipeline: mean error {:.1f} %.", errors.size(),
                     sum / static_cast<double>(errors.size()) * 100);
}

void add_vtrain(const Publications& published, std::vector<MeasuredRun>& runs) {
  for (const PublishedRow& c : published.table("vtrain.csv")) {
    Plan plan;
    plan.tp = c.integer("tensor_parallel");
    plan.dp = c.integer("data_parallel");
    plan.pp = c.integer("pipeline_parallel");
    plan.micro_batch_size = c.integer("micro_batch");
    plan.microbatches = c.share("global_batch", plan.micro_batch_size * plan.dp);
    plan.schedule = "1f1b";
    plan.recompute.mode = RecomputeMode::full;
    const Model model = gpt(c.integer("heads"), c.integer("hidden"), c.integer("layers"),
                            c.integer("sequence"), kPaperVocabulary);
    MeasuredRun run = run_of(plan, model, "megatron-deepspeed-2022");
    // Waiting for every kernel (CUDA_LAUNCH_BLOCKING) was BLOOM's job's own setting.
    run.cluster.stack.time.blocking_launches = false;
    run.cluster.stack.time.launch.reset();
    run.cluster.inter.bandwidth = BytesPerSecond(100e9 / run.cluster.devices_per_node);
    run.row = fmt::format("vTrain {}B b={} t={} d={} p={}", c.text("parameters_billion"),
                          plan.micro_batch_size, plan.tp, plan.dp, plan.pp);
    run.step = PrintedStep{"iteration, ms", c.printed("iteration_ms"), 1e3};
    runs.push_back(std::move(run));
  }
}

void add_korthikanti(const Publications& published, std::vector<MeasuredRun>& runs) {
  std::map<std::string, PublishedRow> models;
  for (const PublishedRow& c : published.table("korthikanti-models.csv"))
    models.emplace(c.text("model"), c);
  for (const PublishedRow& c : published.table("korthikanti-steps.csv")) {
    const PublishedRow& m = named(models, c, "model");
    const auto recompute = parse_recompute_word(c.text("recompute"));
    if (!recompute) c.fail("recompute", "expected none, selective or full");
    Plan plan;
    plan.tp = m.integer("tensor_parallel");
    plan.pp = m.integer("pipeline_parallel");
    plan.vpp = m.integer("interleave");
    plan.dp = c.integer("data_parallel");
    plan.micro_batch_size = m.integer("micro_batch");
    plan.microbatches = m.share("global_batch", plan.micro_batch_size);
    plan.schedule = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
    plan.sequence_parallel = c.text("sequence") == "yes";
    plan.recompute = *recompute;
    const Model model =
        gpt(m.integer("heads"), m.integer("hidden"), m.integer("layers"), 2048, kPaperVocabulary);
    MeasuredRun run = run_of(plan, model, "megatron-2021");
    run.row = fmt::format("Korthikanti {}, {}{}, d={}", c.text("model"), c.text("recompute"),
                          plan.sequence_parallel ? ", sequence parallel" : "", plan.dp);
    run.step = PrintedStep{"iteration, s", c.printed("iteration_s")};
    runs.push_back(std::move(run));
  }
}

// FLOPs of a step with re-materialisation: 96 B s l h^2 (1 + s / 6h + V / 16 l h) (Narayanan et
// al., SC 2021, equation 3).
double megatron_flops(double batch, double s, double l, double h) {
  return 96 * batch * s * l * h * h *
         (1 + s / (6 * h) + static_cast<double>(kPaperVocabulary) / (16 * l * h));
}

void add_megatron(const Publications& published, std::vector<MeasuredRun>& runs) {
  // Table 2 is of one model; its sizes are in the text.
  constexpr int kHeads = 96, kHidden = 12288, kLayers = 96, kSequence = 2048;
  const Model model = gpt(kHeads, kHidden, kLayers, kSequence, kPaperVocabulary);
  for (const PublishedRow& c : published.table("megatron-2021-table2.csv")) {
    Plan plan;
    plan.tp = c.integer("tensor_parallel");
    plan.pp = c.integer("pipeline_parallel");
    plan.dp = c.share("gpus", plan.tp * plan.pp);
    plan.micro_batch_size = c.integer("micro_batch");
    plan.microbatches = c.share("batch", plan.dp * plan.micro_batch_size);
    plan.schedule = "1f1b";
    plan.recompute.mode = RecomputeMode::full;
    // Counted as the paper counts its rates.
    const double flops = megatron_flops(c.number("batch"), kSequence, kLayers, kHidden);
    MeasuredRun run = run_of(plan, model, "megatron-2021");
    run.row = fmt::format("Megatron-LM 175B, {} GPUs", plan.devices());
    run.step = PrintedStep{"TFLOP/s a GPU", c.printed("tflops_per_gpu"),
                           flops / plan.devices() / 1e12, true};
    runs.push_back(std::move(run));
  }
}

void add_zero_bubble(const Publications& published, std::vector<MeasuredRun>& runs) {
  struct Method {
    const char *schedule, *column;
  };
  for (const ZeroBubbleRow& row : zero_bubble_rows(published)) {
    const Model model = gpt(row.heads, row.hidden, row.layers, row.sequence, kZeroBubbleVocabulary);
    for (const auto& [schedule, column] :
         {Method{"1f1b", "samples_1f1b"}, Method{"interleaved-1f1b", "samples_1f1b_i"},
          Method{"zb-h1", "samples_zb_1p"}}) {
      Plan plan;
      plan.pp = row.p;
      plan.micro_batch_size = row.b;
      plan.microbatches = row.m;
      plan.schedule = schedule;
      // 1F1B-I runs one layer a chunk; the others all of a stage's.
      const int blocks = plan.schedule == "interleaved-1f1b" ? 1 : row.layers_per_stage();
      plan.vpp = row.layers_per_stage() / blocks;
      std::vector<int> of_stages(static_cast<std::size_t>(plan.stages()), blocks);
      // The ends have a layer less, for the embedding and the head.
      --of_stages.front();
      --of_stages.back();
      MeasuredRun run = run_of(plan, model, "megatron-2021", of_stages);
      run.row = fmt::format("Zero Bubble {}, {}", row.name, schedule);
      run.step = PrintedStep{"samples/s a GPU", row.cells.printed(column),
                             static_cast<double>(plan.global_batch_size()) / plan.pp, true};
      runs.push_back(std::move(run));
    }
  }
}

}  // namespace

std::vector<MeasuredRun> read_papers(const Publications& published) {
  std::vector<MeasuredRun> runs;
  add_vtrain(published, runs);
  // A folder with other rows of vTrain need not have other rows of all.
  if (published.has("korthikanti-steps.csv")) add_korthikanti(published, runs);
  if (published.has("megatron-2021-table2.csv")) add_megatron(published, runs);
  if (published.has("zero-bubble.csv")) add_zero_bubble(published, runs);
  return runs;
}

CaseResult reproduce_builtin(const Publications& published) {
  const std::vector<MeasuredRun> runs = read_papers(published);
  const std::vector<RunForecast> forecasts = forecast_runs(runs);
  CaseResult result;
  std::vector<double> pipelines;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const MeasuredRun& run = runs[i];
    const PrintedStep& step = *run.step;
    // The 22B steps helped to find a built-in rate: they are no forecasts.
    result.add(run.row.starts_with("Korthikanti 22B") ? Role::calibrated : Role::predicted,
               {run.row, step.quantity, step.printed, step.printed_of(forecasts[i].step),
                run.cluster.device.name});
    if (run.row.starts_with("vTrain") && run.plan.pp > 1)
      pipelines.push_back(std::abs(result.lines.back().error()));
  }
  if (!pipelines.empty()) result.notes.push_back(pipelines_note(pipelines));
  result.notes.emplace_back(
      "Built-in costs of A100-SXM4-80GB (tools/examples/clusters/dgx-a100.json), as a forecast "
      "without any measurement takes them. Its kernel rates are fitted to measured kernels; where "
      "a choice between two readings saw rows of this case, the file's origins say which.");
  result.notes.emplace_back("Of H100 and H200 other cases hold built-in costs to measured runs.");
  return result;
}

}  // namespace weir

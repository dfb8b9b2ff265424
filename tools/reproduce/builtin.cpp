// Measured steps of A100s, forecast as `weir simulate --cluster
// tools/examples/clusters/dgx-a100.json` does with no costs of one's own: what a user gets who has
// measured nothing. Nothing is fitted here. The cluster's kernel rates are other rows' (`weir
// reproduce kernel-rates`), but its bandwidth's efficiency was first found on Korthikanti's 22B
// layer, so the 22B steps are marked calibrated and every other is predicted.
//
// Each job's plan is what its paper states; a job has as many nodes of eight as its devices fill.
// vTrain states 800 Gb/s between nodes, half of a DGX A100's.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/builtin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/import/job.hpp"
#include "sim/forecast.hpp"
#include "tools/reproduce/reproduction.hpp"
#include "tools/reproduce/zero_bubble.hpp"

namespace weir {
namespace {

constexpr std::int64_t kVocabulary = 51200, kZeroBubbleVocabulary = 50257;

// GPT with a tied head, MLPs of 4 h.
Model gpt(std::int64_t heads, std::int64_t hidden, std::int64_t layers, std::int64_t sequence,
          std::int64_t vocabulary) {
  Decoder d;
  d.embedding = {.vocabulary = vocabulary, .hidden = hidden, .positions = sequence, .tied = true};
  d.block = {.hidden = hidden,
             .heads = heads,
             .kv_heads = heads,
             .head_dim = hidden / heads,
             .ffn = 4 * hidden};
  d.blocks = layers;
  d.norm = {.hidden = hidden};
  d.head = {.vocabulary = vocabulary, .hidden = hidden, .tied = true};
  return decoder_model(d, sequence);
}

class Jobs {
 public:
  explicit Jobs(Cluster cluster) : cluster_(std::move(cluster)) {}

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  void set_adapters(BytesPerSecond each) { cluster_.inter.bandwidth = each; }

  // The step of a plan whose stages have `blocks` blocks; none: equal numbers, and one more in the
  // first where that leaves a rest.
  [[nodiscard]] Seconds step(Plan plan, const Model& model, std::vector<int> blocks = {}) {
    const auto layers = static_cast<int>(model.layers.size()) - 3;
    for (int s = 0; blocks.size() < static_cast<std::size_t>(plan.stages()); ++s) {
      blocks.push_back(layers / plan.stages() + (s < layers % plan.stages() ? 1 : 0));
    }
    plan.seq_length = model.seq_length;
    plan.dtype = Dtype::fp16;
    plan.boundaries = boundaries_of_blocks(blocks).value();
    plan.slots = 0;
    cluster_.nodes = (plan.devices() + cluster_.devices_per_node - 1) / cluster_.devices_per_node;
    const Costs costs = builtin_costs(model, plan.seq_length, plan.dtype, cluster_, {plan.split()});
    const ResolvedPlan loaded =
        derive(plan, model, named_schedule(plan.schedule, plan.pp, plan.vpp, plan.microbatches));
    return forecast(loaded, costs, cluster_, {.detail = ForecastDetail::ranking})
        .forecast.step_time;
  }

 private:
  Cluster cluster_;
};

// Mean error of the rows with a pipeline, which the predictor published with them is judged by.
std::string pipelines_note(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += error;
  return fmt::format("Of vTrain's rows {} have a pipeline: mean error {:.1f} %.", errors.size(),
                     sum / static_cast<double>(errors.size()) * 100);
}

void add_vtrain(const Publications& published, Jobs jobs, CaseResult& result) {
  std::vector<double> pipelines;
  jobs.set_adapters(BytesPerSecond(100e9 / jobs.cluster().devices_per_node));
  for (const PublishedRow& c : published.table("vtrain.csv")) {
    Plan plan;
    plan.tp = c.integer("tensor_parallel");
    plan.dp = c.integer("data_parallel");
    plan.pp = c.integer("pipeline_parallel");
    plan.micro_batch_size = c.integer("micro_batch");
    plan.microbatches = c.share("global_batch", plan.micro_batch_size * plan.dp);
    plan.schedule = "1f1b";
    plan.recompute = {RecomputeMode::full, false, RecomputePlacement::fused};
    const Model model = gpt(c.integer("heads"), c.integer("hidden"), c.integer("layers"),
                            c.integer("sequence"), kVocabulary);
    result.add(Role::predicted,
               {fmt::format("vTrain {}B b={} t={} d={} p={}", c.text("parameters_billion"),
                            plan.micro_batch_size, plan.tp, plan.dp, plan.pp),
                "iteration, ms", c.printed("iteration_ms"), jobs.step(plan, model).count() * 1e3,
                jobs.cluster().device.name});
    if (plan.pp > 1) pipelines.push_back(std::abs(result.lines.back().error()));
  }
  if (!pipelines.empty()) result.notes.push_back(pipelines_note(pipelines));
}

void add_korthikanti(const Publications& published, Jobs jobs, CaseResult& result) {
  std::map<std::string, PublishedRow> models;
  for (const PublishedRow& c : published.table("korthikanti-models.csv"))
    models.emplace(c.text("model"), c);
  for (const PublishedRow& c : published.table("korthikanti-steps.csv")) {
    const PublishedRow& m = named(models, c, "model");
    const auto mode = parse_recompute_mode(c.text("recompute"));
    if (!mode) c.fail("recompute", "expected none, selective or full");
    Plan plan;
    plan.tp = m.integer("tensor_parallel");
    plan.pp = m.integer("pipeline_parallel");
    plan.vpp = m.integer("interleave");
    plan.dp = c.integer("data_parallel");
    plan.micro_batch_size = m.integer("micro_batch");
    plan.microbatches = m.share("global_batch", plan.micro_batch_size);
    plan.schedule = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
    plan.sequence_parallel = c.text("sequence") == "yes";
    plan.recompute = {*mode, false, RecomputePlacement::fused};
    const Model model =
        gpt(m.integer("heads"), m.integer("hidden"), m.integer("layers"), 2048, kVocabulary);
    result.add(c.text("model") == "22B" ? Role::calibrated : Role::predicted,
               {fmt::format("Korthikanti {}, {}{}, d={}", c.text("model"), c.text("recompute"),
                            plan.sequence_parallel ? ", sequence parallel" : "", plan.dp),
                "iteration, s", c.printed("iteration_s"), jobs.step(plan, model).count(),
                jobs.cluster().device.name});
  }
}

// FLOPs of a step with re-materialisation: 96 B s l h^2 (1 + s / 6h + V / 16 l h) (Narayanan et
// al., SC 2021, equation 3).
double megatron_flops(double batch, double s, double l, double h) {
  return 96 * batch * s * l * h * h *
         (1 + s / (6 * h) + static_cast<double>(kVocabulary) / (16 * l * h));
}

void add_megatron(const Publications& published, Jobs jobs, CaseResult& result) {
  constexpr int kHeads = 96, kHidden = 12288, kLayers = 96, kSequence = 2048;
  const Model model = gpt(kHeads, kHidden, kLayers, kSequence, kVocabulary);
  for (const PublishedRow& c : published.table("megatron-2021-table2.csv")) {
    Plan plan;
    plan.tp = c.integer("tensor_parallel");
    plan.pp = c.integer("pipeline_parallel");
    plan.dp = c.share("gpus", plan.tp * plan.pp);
    plan.micro_batch_size = c.integer("micro_batch");
    plan.microbatches = c.share("batch", plan.dp * plan.micro_batch_size);
    plan.schedule = "1f1b";
    plan.recompute = {RecomputeMode::full, false, RecomputePlacement::fused};
    const double flops = megatron_flops(c.number("batch"), kSequence, kLayers, kHidden);
    result.add(Role::predicted, {fmt::format("Megatron-LM 175B, {} GPUs", plan.devices()),
                                 "TFLOP/s a GPU", c.printed("tflops_per_gpu"),
                                 flops / jobs.step(plan, model).count() / plan.devices() / 1e12,
                                 jobs.cluster().device.name});
  }
}

void add_zero_bubble(const Publications& published, Jobs jobs, CaseResult& result) {
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
      const int blocks = plan.schedule == "interleaved-1f1b" ? 1 : row.layers_per_stage();
      plan.vpp = row.layers_per_stage() / blocks;
      std::vector<int> of_stages(static_cast<std::size_t>(plan.stages()), blocks);
      --of_stages.front();
      --of_stages.back();
      const double samples = static_cast<double>(plan.global_batch_size()) / plan.pp;
      result.add(Role::predicted,
                 {fmt::format("Zero Bubble {}, {}", row.name, schedule), "samples/s a GPU",
                  row.cells.printed(column), samples / jobs.step(plan, model, of_stages).count(),
                  jobs.cluster().device.name});
    }
  }
}

}  // namespace

CaseResult reproduce_builtin(const Publications& published) {
  const Jobs jobs(parse_cluster(compiled_tables().at("dgx-a100.json"), "dgx-a100.json"));
  CaseResult result;
  add_vtrain(published, jobs, result);
  add_korthikanti(published, jobs, result);
  add_megatron(published, jobs, result);
  add_zero_bubble(published, jobs, result);
  result.notes.emplace_back(
      "Built-in costs of A100-SXM4-80GB (tools/examples/clusters/dgx-a100.json), as a forecast "
      "without any measurement takes them. Its kernel rates are fitted to measured kernels; where "
      "a "
      "choice between two readings saw rows of this case, the file's origins say which.");
  result.notes.emplace_back(
      "Of H100 and H200 no published step is in the tables: their built-in costs are not held to "
      "any.");
  return result;
}

}  // namespace weir

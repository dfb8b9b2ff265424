// The Ultra-Scale Playbook's benchmark: 1B and 3B models by nanotron on 1 to 64 nodes of H100s.
//
// What its columns and nanotron's sources say: bf16 with gradients accumulated and reduced in fp32,
// fused attention, no re-materialisation, 1F1B, tensor parallelism with sequence parallelism
// (tp_mode REDUCE_SCATTER), stages cut by nanotron's own rule. Without ZeRO gradients travel while
// the last micro-batch's backward runs; with it after all backwards (nanotron@67c5ebb6,
// src/nanotron/trainer.py).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "plan/import/job.hpp"
#include "tools/reproduce/measured/measured_run.hpp"

namespace weir {
namespace {

constexpr const char* kTable = "ultrascale_playbook_nanotron_h100.csv";
constexpr const char* kModels = "ultrascale_playbook_models.csv";

Model llama(const PublishedRow& c, std::int64_t sequence) {
  const std::int64_t hidden = c.integer("hidden"), heads = c.integer("heads");
  const std::int64_t vocabulary = c.integer("vocab");
  const bool tied = c.text("tied_embeddings") == "1";
  Decoder d;
  d.embedding = {.vocabulary = vocabulary, .hidden = hidden, .tied = tied};
  d.block = {.hidden = hidden,
             .heads = heads,
             .kv_heads = c.integer("kv_heads"),
             .head_dim = hidden / heads,
             .ffn = c.integer("ffn"),
             .activation = Activation::silu,
             .norm = NormKind::rms_norm,
             .gated = true,
             .qkv_bias = false,
             .output_bias = false,
             .mlp_bias = false,
             .rotary = true};
  d.blocks = c.integer("layers");
  d.norm = {.hidden = hidden, .kind = NormKind::rms_norm};
  d.head = {.vocabulary = vocabulary, .hidden = hidden, .tied = tied};
  Model model = decoder_model(d, sequence);
  set_attention(model, AttentionKind::fused);
  return model;
}

// The models that rows name; a row of a model of its own has its shape in its columns.
class Models {
 public:
  explicit Models(const Publications& published) {
    if (!published.has(kModels)) return;
    for (const PublishedRow& c : published.table(kModels)) shapes_.emplace(c.text("model"), c);
  }

  [[nodiscard]] std::shared_ptr<const Model> of(const PublishedRow& c) {
    const int sequence = c.integer("sequence");
    auto& model = made_[{c.text("model"), sequence}];
    if (!model) {
      const PublishedRow& shape =
          c.text_or_empty("layers").empty() ? named(shapes_, c, "model") : c;
      model = std::make_shared<const Model>(llama(shape, sequence));
    }
    return model;
  }

 private:
  std::map<std::string, PublishedRow> shapes_;
  std::map<std::pair<std::string, int>, std::shared_ptr<const Model>> made_;
};

Plan plan_of(const PublishedRow& c) {
  Plan plan;
  plan.seq_length = c.integer("sequence");
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.dp = c.integer("dp");
  plan.tp = c.integer("tp");
  plan.pp = c.integer("pp");
  plan.micro_batch_size = c.integer("micro_batch");
  plan.microbatches = c.integer("grad_acc");
  plan.zero = c.text("zero") == "0" ? 0 : c.integer("zero");
  plan.sequence_parallel = plan.tp > 1;
  plan.overlap_grad_reduce = plan.zero == 0 && plan.dp > 1;
  plan.schedule = "1f1b";
  plan.slots = 0;
  return plan;
}

// nanotron's own cut (src/nanotron/models/base.py): a layer costs its products' weights, the head's
// projection too, all else nothing, and the layer with which the sum exceeds an equal share still
// belongs to the stage.
std::vector<int> boundaries(const Model& model, int stages) {
  std::vector<double> cost;
  for (const Layer& layer : model.layers) {
    cost.push_back(0);
    if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      const auto hidden = static_cast<double>(block->hidden);
      cost.back() = hidden * (4 * hidden + 3 * static_cast<double>(block->ffn));
    }
    if (const auto* head = std::get_if<HeadShape>(&layer.shape))
      cost.back() = static_cast<double>(head->vocabulary) * static_cast<double>(head->hidden);
  }
  double total = 0;
  for (const double one : cost) total += one;
  std::vector<int> begins;
  double sum = 0;
  for (std::size_t l = 0; l < cost.size(); ++l) {
    sum += cost[l];
    const auto stage = static_cast<double>(begins.size() + 1);
    if (static_cast<int>(begins.size()) < stages - 1 && sum > total * stage / stages)
      begins.push_back(static_cast<int>(l) + 1);
  }
  begins.resize(static_cast<std::size_t>(stages) - 1, static_cast<int>(cost.size()));
  return begins;
}

bool has_empty_stage(const std::vector<int>& boundaries, const Model& model) {
  int before = 0;
  for (const int begin : boundaries) {
    if (begin == before) return true;
    before = begin;
  }
  return before == static_cast<int>(model.layers.size());
}

// What the table's readers judged of a run's time, in words.
std::string unhealthy(const PublishedRow& c) {
  static const std::map<std::string, std::string> kReasons{
      {"group_slow", "its group of runs is slow as a whole"},
      {"slow_twin", "a twin at larger D is 1.25 times faster"},
      {"collapse", "collapsed"},
      {"suspect_512", "one of the suspect runs of 512 devices"},
      {"inconsistent_batch", "its b, M and D do not make the mini-batch it states"}};
  const std::string& health = c.text("health");
  if (health.empty() || health == "plausible") return "";
  return named(kReasons, c, "health");
}

}  // namespace

std::vector<MeasuredRun> read_playbook(const Publications& published) {
  Models models(published);
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table(kTable)) {
    MeasuredRun run;
    run.plan = plan_of(c);
    run.model_name = c.text("model");
    run.model = models.of(c);
    run.row =
        fmt::format("{} d={} t={} p={} b={} M={} zero={}", run.model_name, run.plan.dp, run.plan.tp,
                    run.plan.pp, run.plan.micro_batch_size, run.plan.microbatches, run.plan.zero);
    run.cluster = machine_named("dgx-h100", run.plan.devices());
    run.stack = "nanotron";
    run.plan.boundaries = boundaries(*run.model, run.plan.pp);
    if (has_empty_stage(run.plan.boundaries, *run.model)) run.unforeseen = "a stage has no layer";
    run.failed = c.text("status") != "ok";
    run.unhealthy = unhealthy(c);
    if (const auto ms = c.printed_or_none("step_ms"))
      run.step_s = Printed{ms->value * 1e-3, ms->last_digit * 1e-3};
    run.memory_gib = c.printed_or_none("gpu_memory_gb");
    run.reading = MemoryReading::reserved_first_rank;
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir

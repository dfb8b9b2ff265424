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

#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/measured/shapes.hpp"

namespace weir {
namespace {

constexpr const char* kPlaybookTable = "ultrascale_playbook_nanotron_h100.csv";
constexpr const char* kModels = "ultrascale_playbook_models.csv";

DecoderSizes sizes_of(const PublishedRow& c) {
  return {c.integer("layers"),
          c.integer("hidden"),
          c.integer("heads"),
          c.integer("vocab"),
          c.integer("kv_heads"),
          c.integer("ffn"),
          true,
          c.text("tied_embeddings") == "1"};
}

// The models that rows name; a row of a model of its own has its shape in its columns.
class Models {
 public:
  explicit Models(const Publications& published) {
    if (!published.has(kModels)) return;
    for (const PublishedRow& c : published.table(kModels)) shapes_.emplace(c.text("model"), c);
  }

  [[nodiscard]] std::shared_ptr<const Model> of(const PublishedRow& c) {
    const PublishedRow& shape = c.text_or_empty("layers").empty() ? named(shapes_, c, "model") : c;
    return shelf_.get(sizes_of(shape), c.integer("sequence"), AttentionKind::fused);
  }

 private:
  std::map<std::string, PublishedRow> shapes_;
  DecoderShelf shelf_;
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
  plan.overlap_tensor_parallel = plan.tp > 1;  // its tp_linear_async_communication
  // nanotron reduces while the backward runs only without ZeRO.
  plan.overlap_grad_reduce = plan.zero == 0 && plan.dp > 1;
  plan.schedule = "1f1b";
  plan.slots = 0;
  return plan;
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
  for (const PublishedRow& c : published.table(kPlaybookTable)) {
    MeasuredRun run;
    run.plan = plan_of(c);
    run.model_name = c.text("model");
    run.model = models.of(c);
    run.row =
        fmt::format("{} d={} t={} p={} b={} M={} zero={}", run.model_name, run.plan.dp, run.plan.tp,
                    run.plan.pp, run.plan.micro_batch_size, run.plan.microbatches, run.plan.zero);
    set_machine(run, "h100-p5", "nanotron");
    // nanotron's own rule cuts the stages.
    place_stages(run);
    run.failed = c.text("status") != "ok";
    // Told with its reason, and kept out of the errors.
    run.unhealthy = unhealthy(c);
    if (const auto ms = c.printed_or_none("step_ms")) run.step = PrintedStep{"step, ms", *ms, 1e3};
    run.memory_gib = c.printed_or_none("gpu_memory_gb");
    run.reading = MemoryReading::reserved_first_rank;
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir

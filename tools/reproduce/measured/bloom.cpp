// BLOOM's search for a layout: GPTs of 177 to 205 billion parameters by Megatron-DeepSpeed on Jean
// Zay's A100s, one forward and one backward at a time, every layer re-materialised.
//
// The chronicle's text: fp16 with ZeRO-1 until 27 February 2022, from the 28th bf16 with gradients
// in fp32 and the embedding and the head counted as a layer each. TFLOP/s are 96 B s l h^2 / t /
// GPUs of the earliest rows, 96 B s l h^2 (1 + s / 6h + V / 16 l h) of later ones (Narayanan et
// al., SC 2021, equation 3); where a row does not state its layers they follow from that.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/measured/shapes.hpp"

namespace weir {
namespace {

constexpr const char* kTable = "bigscience_a100_176b_3d.csv";
// "250k" tokens, padded as Megatron pads them for eight devices.
constexpr double kVocabulary = 250880;

// What the row's TFLOP/s make of the layers, by both formulas.
struct Layers {
  double by_products = 0, by_all = 0;
};
Layers layers_of(const PublishedRow& c) {
  const double h = c.number("hidden"), s = c.number("sequence"), batch = c.number("global_batch");
  const double flops = c.number("tflops_per_gpu") * 1e12 * c.number("gpus") * c.number("step_s");
  const double one = 96 * batch * s * h * h;
  return {flops / one, (flops / one - kVocabulary / (16 * h)) / (1 + s / (6 * h))};
}

// The printed layers, else the formula's that comes out nearest to a whole number.
int stated_layers(const PublishedRow& c) {
  if (!c.text("layers").empty()) return c.integer("layers");
  if (c.text("tflops_per_gpu").empty()) c.fail("layers", "stated neither here nor by TFLOP/s");
  const Layers found = layers_of(c);
  const auto rest = [](double x) { return std::abs(x - std::round(x)); };
  const double layers =
      rest(found.by_products) < rest(found.by_all) ? found.by_products : found.by_all;
  return static_cast<int>(std::lround(layers));
}

// Time, mini-batch and TFLOP/s of a row that was printed as it ran agree by one of the formulas.
bool consistent(const PublishedRow& c, int layers) {
  const Layers found = layers_of(c);
  const auto near = [&](double x) { return std::abs(x / layers - 1) < 0.05; };
  return near(found.by_products) || near(found.by_all);
}

MeasuredRun run_of(const PublishedRow& c, DecoderShelf& shelf) {
  MeasuredRun run;
  const bool failed = c.text("status") != "ok";
  const bool late = c.text_or_empty("notes").starts_with("02-28");
  Plan& plan = run.plan;
  plan.seq_length = c.integer("sequence");
  plan.dtype = late ? Dtype::bf16 : Dtype::fp16;
  plan.tp = c.integer("tp");
  plan.pp = c.integer("pp");
  // Not every table states d: it follows from the devices.
  plan.dp = c.text("dp").empty() ? c.share("gpus", plan.tp * plan.pp) : c.integer("dp");
  plan.micro_batch_size = c.integer("micro_batch");
  plan.microbatches = c.integer("global_batch") / (plan.micro_batch_size * plan.dp);
  plan.zero = c.text("zero") == "0" ? 0 : 1;
  plan.schedule = "1f1b";
  plan.slots = 0;
  plan.recompute.mode = RecomputeMode::full;
  const int layers = stated_layers(c);
  // The tables that leave the number of heads out are of the model of the one before: 96.
  const int heads = c.text("heads").empty() ? 96 : c.integer("heads");
  const DecoderSizes sizes{layers, c.integer("hidden"), heads,
                           static_cast<std::int64_t>(kVocabulary)};
  run.model_name = fmt::format("l={} h={} a={}", layers, sizes.hidden, heads);
  run.model = shelf.get(sizes, plan.seq_length, AttentionKind::unfused);
  run.row = fmt::format("{} d={} t={} p={} b={} B={} zero={}", run.model_name, plan.dp, plan.tp,
                        plan.pp, plan.micro_batch_size, c.text("global_batch"), plan.zero);
  run.grid = fmt::format("{} B={} on {}", run.model_name, c.text("global_batch"), c.text("gpus"));
  run.failed = failed;
  if (const auto step = c.printed_or_none("step_s")) run.step = PrintedStep{"step, s", *step};
  run.memory_gib = c.printed_or_none("memory_gb");
  run.reading = MemoryReading::fullest_device;
  set_machine(run, "jean-zay-a100", "megatron-deepspeed-2022");
  if (late) run.cluster.stack.placement = StagePlacement::embedding_head;
  place_stages(run);
  // TFLOP/s, time and mini-batch of a row must agree with each other.
  if (!failed && !consistent(c, layers))
    run.unforeseen = "its TFLOP/s contradict its time and mini-batch";
  return run;
}

}  // namespace

std::vector<MeasuredRun> read_bloom(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table(kTable)) runs.push_back(run_of(c, shelf));
  return runs;
}

}  // namespace weir

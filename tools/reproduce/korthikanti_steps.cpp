// Korthikanti et al. (2022): times of a layer and of a step. Two constants are fitted on the 22B
// rows (one device group, no pipeline); the 530B rows, 35 stages of three chunks, are simulated
// with them.
//
// Legend: b micro-batch, s tokens, h hidden, a heads, t tensor parallel, V vocabulary. A layer's F
// takes
//
//   x0 24 b s h^2 (1 + s / 6h) / t / 312 TFLOP/s   products (Narayanan et al., SC 2021, appendix)
// + x1 traffic / 2039 GB/s                         memory
// + 4 b s h (t - 1) / t x 2 B / 195 GB/s           two ring all-reduces
//
// B does twice the products. For each of the b a s^2 / t attention scores F moves 13 B and B 19 B
// (below); for each of the b s h numbers outside tensor parallelism 22 B and 32 B, with sequence
// parallelism over t. B has two more all-reduces; sequence parallelism moves the same bytes, and
// hides what it gathers again in B (section 4.2.2).
// The all-reduces' rate is NVLink's 300 GB/s at the 65 % of Calculon's a100_80g system file (Isaev
// et al., SC 2023): beside products and memory traffic, a constant of its own could not be told
// from them by these rows.
//
// Scores, fp16: F writes them (2), softmax reads and writes (4), dropout reads, writes and writes
// its mask (5), the product with the values reads (2). B writes the probabilities' gradient (2),
// dropout reads it and the mask and writes (5), softmax reads two and writes one (6), three
// products read (6). Numbers outside: two norms (2 read, 2 written; in B with the sum into the
// residual's gradient 10 in all), two dropouts with residual (7; 6 in B). Re-materialisation
// repeats F (full), or of it the scores' traffic and products 4 b s^2 h / t (selective).
//
// Around the layers, as stated: the head x0 2 b s h V / t FLOPs a pass, B two; Adam's 38 B a
// parameter at 2039 GB/s; a crossing between stages, 2 b s h / t B over a 25 GB/s adapter, occupies
// its sender (Megatron waits for it); fp32 gradients through the same adapter where there are
// replicas.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <map>

#include "costmodel/fit/robust_fit.hpp"
#include "plan/words/error.hpp"
#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kKorthikantiSequence = 2048, kKorthikantiVocabulary = 51200;
constexpr double kPeak = 312e12, kMemory = 2.039e12, kNvlink = 0.65 * 300e9, kAdapter = 25e9;

using Constants = std::array<double, 3>;  // x0, x1, and 1 for the known

Constants operator+(const Constants& a, const Constants& b) {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}
Constants operator*(double f, const Constants& a) { return {f * a[0], f * a[1], f * a[2]}; }
Seconds seconds(const Constants& x, const Constants& times) {
  return Seconds(x[0] * times[0] + x[1] * times[1] + x[2] * times[2]);
}

struct Shape {
  double b = 1, h = 1, a = 1, t = 1;
  int layers = 1, p = 1, v = 1, m = 1;
};

struct Memory {
  std::string recompute;  // none, selective, full
  bool sequence = false;
};

Memory read_memory(const PublishedRow& cells) {
  Memory memory{cells.text("recompute"), cells.text("sequence") == "yes"};
  if (memory.recompute != "none" && memory.recompute != "selective" && memory.recompute != "full") {
    throw InputError("korthikanti", "recompute", "expected none, selective or full");
  }
  return memory;
}

double scores(const Shape& x) {
  return x.b * x.a * kKorthikantiSequence * kKorthikantiSequence / x.t;
}
double outside(const Shape& x, const Memory& memory) {
  return x.b * kKorthikantiSequence * x.h / (memory.sequence ? x.t : 1);
}
double products(const Shape& x) {
  return 24 * x.b * kKorthikantiSequence * x.h * x.h * (1 + kKorthikantiSequence / (6 * x.h)) /
         x.t / kPeak;
}
double all_reduces(const Shape& x) {
  return 4 * x.b * kKorthikantiSequence * x.h * (x.t - 1) / x.t * 2 / kNvlink;
}

Constants forward(const Shape& x, const Memory& memory) {
  return {products(x), (13 * scores(x) + 22 * outside(x, memory)) / kMemory, all_reduces(x)};
}

// Re-materialisation included.
Constants backward(const Shape& x, const Memory& memory) {
  const Constants own{2 * products(x), (19 * scores(x) + 32 * outside(x, memory)) / kMemory,
                      all_reduces(x)};
  if (memory.recompute == "full") return own + forward(x, memory);
  if (memory.recompute == "none") return own;
  return own + Constants{4 * x.b * kKorthikantiSequence * kKorthikantiSequence * x.h / x.t / kPeak,
                         13 * scores(x) / kMemory, 0};
}

Constants head(const Shape& x) {
  return {2 * x.b * kKorthikantiSequence * x.h * kKorthikantiVocabulary / x.t / kPeak, 0, 0};
}

double parameters(const Shape& x) {
  return (12.0 * x.h * x.h * x.layers / x.p + kKorthikantiVocabulary * x.h) / x.t;
}

Seconds after_backward(const Shape& x, int replicas) {
  const double reduce = 2 * (replicas - 1.0) / replicas * parameters(x) * 4 / kAdapter;
  return Seconds(parameters(x) * 38 / kMemory + reduce);
}

Seconds step_time(const Shape& x, const Memory& memory, int replicas, const Constants& constants) {
  const Schedule schedule = named_schedule(x.v == 1 ? "1f1b" : "interleaved-1f1b", x.p, x.v, x.m);
  const int stages = x.p * x.v;
  CostTable costs = equal_stages(
      schedule, {.latency = Seconds(2 * x.b * kKorthikantiSequence * x.h / x.t / kAdapter)});
  for (int s = 0; s < stages; ++s) {
    const double layers = static_cast<double>(x.layers) / stages, at_head = s == stages - 1 ? 1 : 0;
    StageCost& cost = costs.stages[static_cast<std::size_t>(s)];
    cost.f = to_nanoseconds(seconds(constants, layers * forward(x, memory) + at_head * head(x)));
    cost.b =
        to_nanoseconds(seconds(constants, layers * backward(x, memory) + 2 * at_head * head(x)));
  }
  occupy_senders(costs);
  return to_seconds(time_pipeline(schedule, costs).step_time) + after_backward(x, replicas);
}

struct LayerRow {
  std::string name;
  Printed f_ms, b_ms;
  Constants f, b;
};

struct StepRow {
  std::string name, model;
  Printed seconds;
  Memory memory;
  int replicas = 1;
};

FitRow known_removed(const Constants& times, Seconds total) {
  return {{times[0], times[1]}, total.count() - times[2]};
}

Constants fit(const std::vector<LayerRow>& layers, const std::vector<StepRow>& steps,
              const std::string& model, const Shape& shape) {
  std::vector<FitRow> rows;
  // What is known of a row is taken off before the fit: the constants explain the rest.
  for (const LayerRow& row : layers) {
    rows.push_back(known_removed(row.f, Seconds(row.f_ms.value * 1e-3)));
    rows.push_back(known_removed(row.b, Seconds(row.b_ms.value * 1e-3)));
  }
  for (const StepRow& row : steps) {
    if (row.model != model) continue;
    // An iteration is its micro-batches' passes and the head's three, in one device group without a
    // pipeline.
    const Constants passes = forward(shape, row.memory) + backward(shape, row.memory);
    const Constants all = shape.m * (static_cast<double>(shape.layers) * passes + 3 * head(shape));
    rows.push_back(
        known_removed(all, Seconds(row.seconds.value) - after_backward(shape, row.replicas)));
  }
  // No constant below 1: nothing runs faster than the datasheet.
  const std::vector<double> fitted = robust_fit(rows, {1, 1});
  return {fitted[0], fitted[1], 1};
}

std::string describe(const Memory& memory) {
  return memory.recompute + (memory.sequence ? ", sequence parallel" : "");
}

}  // namespace

CaseResult reproduce_korthikanti_steps(const Publications& published) {
  std::map<std::string, Shape> shapes;
  for (const PublishedRow& c : published.table("korthikanti-models.csv")) {
    shapes[c.text("model")] = {
        c.number("micro_batch"), c.number("hidden"),
        c.number("heads"),       c.number("tensor_parallel"),
        c.integer("layers"),     c.integer("pipeline_parallel"),
        c.integer("interleave"), c.share("global_batch", c.integer("micro_batch"))};
  }
  // Two sizes: one to learn on, one to forecast.
  const std::string calibrated = "22B";
  if (!shapes.contains(calibrated))
    throw InputError("korthikanti-models.csv", "model", "22B, to calibrate on, is missing");
  std::vector<LayerRow> layers;
  for (const PublishedRow& c : published.table("korthikanti-layer.csv")) {
    const Memory memory = read_memory(c);
    const Shape& shape = named(shapes, c, "model");
    layers.push_back({fmt::format("table 4, {}, {}", c.text("model"), describe(memory)),
                      c.printed("forward_ms"), c.printed("backward_ms"), forward(shape, memory),
                      backward(shape, memory)});
  }
  std::vector<StepRow> steps;
  for (const PublishedRow& c : published.table("korthikanti-steps.csv")) {
    const Memory memory = read_memory(c);
    const int replicas = c.integer("data_parallel");
    steps.push_back(
        {fmt::format("table 5, {}, {}, d={}", c.text("model"), describe(memory), replicas),
         c.text("model"), c.printed("iteration_s"), memory, replicas});
  }
  const Constants constants = fit(layers, steps, calibrated, shapes.at(calibrated));
  CaseResult result;
  for (const LayerRow& row : layers) {
    result.add(Role::calibrated,
               {row.name, "layer F, ms", row.f_ms, seconds(constants, row.f).count() * 1e3});
    result.add(Role::calibrated,
               {row.name, "layer B, ms", row.b_ms, seconds(constants, row.b).count() * 1e3});
  }
  for (const StepRow& row : steps) {
    // The 22B rows taught the constants, so they are no forecasts.
    result.add(row.model == calibrated ? Role::calibrated : Role::predicted,
               {row.name, "iteration, s", row.seconds,
                step_time(shapes.at(row.model), row.memory, row.replicas, constants).count()});
  }
  result.notes.push_back(
      fmt::format("Two constants, from the 22B rows: matrix products at {:.0f} % of peak, memory "
                  "at {:.0f} %; NVLink at 65 % "
                  "(Calculon's system file).",
                  100 / constants[0], 100 / constants[1]));
  return result;
}

}  // namespace weir

// vTrain (Bang et al., MICRO 2024): measured iterations of Megatron-DeepSpeed on 64 to 512 A100s.
// Six constants of a transformer layer are fitted on the rows without a pipeline (p = 1); rows with
// one are simulated with them.
//
// Legend: b micro-batch, s tokens, h hidden, a heads, t, d, p tensor, data, pipeline parallel, M
// micro-batches, V vocabulary, P parameters of a device. A layer's pass (F, or its
// re-materialisation R; B is two passes) takes
//
//   x0 24 b s h^2 (1 + s / 6h) / t / 312 TFLOP/s   products (Narayanan et al., SC 2021, appendix)
// + x1 b a s^2 / t x 20 B / 2039 GB/s              what is done to every attention score
// + x2 b s h x 20 B / 2039 GB/s                    what is done to activations not split by t
// + x3 4 b s h (t - 1) / t x 2 B / 300 GB/s        two ring all-reduces for two passes, t <= 8
// + x4 the same over 100 GB/s                      t > 8: between nodes
// + x5 100 us                                      launches
//
// and around the passes, as stated: the head x0 2 b s h V / t FLOPs a pass (F, B); a ring
// all-reduce of fp16 gradients through the node's 100 GB/s, which the rings of its t devices share;
// Adam's 38 B a parameter; messages cut in t parts (scatter-gather, Narayanan et al., section 4.1),
// waited for, through an eighth of the node's 100 GB/s.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "costmodel/fit/robust_fit.hpp"
#include "plan/words/error.hpp"
#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kGptVocabulary = 51200;
constexpr double kA100Peak = 312e12, kA100Memory = 2.039e12, kA100Nvlink = 300e9, kNode = 100e9;
constexpr int kNodeDevices = 8;

using VtrainConstants = std::array<double, 6>;
constexpr VtrainConstants kLeast{1, 0, 0, 1, 1, 0};  // nothing is faster than its datasheet

struct VtrainRow {
  std::string name;
  Printed iteration_ms;
  double b, s, h, a;
  int layers, t, d, p, m;
};

VtrainRow read_vtrain_row(const PublishedRow& cells) {
  VtrainRow row{"",
                cells.printed("iteration_ms"),
                cells.number("micro_batch"),
                cells.number("sequence"),
                cells.number("hidden"),
                cells.number("heads"),
                cells.integer("layers"),
                cells.integer("tensor_parallel"),
                cells.integer("data_parallel"),
                cells.integer("pipeline_parallel"),
                0};
  // Rounded nowhere: a share that is not whole is an error of the table.
  row.m = cells.share("global_batch", cells.integer("micro_batch") * row.d);
  row.name = fmt::format("{}B b={} t={} d={} p={}", cells.text("parameters_billion"),
                         cells.text("micro_batch"), row.t, row.d, row.p);
  return row;
}

// What each constant multiplies in one pass through one layer.
VtrainConstants layer_pass(const VtrainRow& r) {
  const double all_reduce = 4 * r.b * r.s * r.h * (r.t - 1) / r.t * 2;
  return {24 * r.b * r.s * r.h * r.h * (1 + r.s / (6 * r.h)) / r.t / kA100Peak,
          r.b * r.a * r.s * r.s / r.t * 20 / kA100Memory,
          r.b * r.s * r.h * 20 / kA100Memory,
          r.t <= kNodeDevices ? all_reduce / kA100Nvlink : 0,
          r.t > kNodeDevices ? all_reduce / kNode : 0,
          1e-4};
}

double head_pass(const VtrainRow& r) {
  return 2 * r.b * r.s * r.h * kGptVocabulary / r.t / kA100Peak;
}

// Gradients of all replicas, and the update, on the device with most parameters.
double after_backward(const VtrainRow& r) {
  const double parameters = (12 * r.h * r.h * r.layers / r.p + kGptVocabulary * r.h) / r.t;
  const double rings = std::min(r.t, kNodeDevices);
  return 2 * (r.d - 1.0) / r.d * parameters * 2 / (kNode / rings) + parameters * 38 / kA100Memory;
}

double dot(const VtrainConstants& a, const VtrainConstants& b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
  return sum;
}

VtrainConstants fit(const std::vector<VtrainRow>& rows) {
  std::vector<FitRow> alone;
  for (const VtrainRow& r : rows) {
    // Without a pipeline nothing but the layers' constants is unknown.
    if (r.p != 1) continue;
    VtrainConstants total = layer_pass(r);
    for (double& value : total) value *= 4.0 * r.layers * r.m;  // F, R and the two of B
    total[0] += head_pass(r) * 3 * r.m;
    // What is stated is taken off: the fit explains what is left.
    alone.push_back(
        {{total.begin(), total.end()}, r.iteration_ms.value * 1e-3 - after_backward(r)});
  }
  if (alone.empty())
    throw InputError("vtrain.csv", "pipeline_parallel", "no row with 1 to calibrate on");
  const std::vector<double> fitted = robust_fit(alone, {kLeast.begin(), kLeast.end()});
  VtrainConstants constants{};
  std::copy(fitted.begin(), fitted.end(), constants.begin());
  return constants;
}

double iteration_s(const VtrainRow& r, const VtrainConstants& constants) {
  const Schedule schedule = named_schedule("1f1b", r.p, 1, r.m);
  const double layer = dot(constants, layer_pass(r)), head = constants[0] * head_pass(r);
  const double link = r.t * r.d >= kNodeDevices ? kNode / kNodeDevices : kA100Nvlink;
  CostTable costs = equal_stages(
      schedule, {Seconds(0), Seconds(0), Seconds(0), Seconds(r.b * r.s * r.h * 2 / r.t / link)});
  for (int s = 0; s < r.p; ++s) {
    const int layers = r.layers / r.p + (s < r.layers % r.p ? 1 : 0);
    const double pass = layer * layers;
    const double at_head = s == r.p - 1 ? head : 0;
    costs.stages[static_cast<std::size_t>(s)].f = to_nanoseconds(Seconds(pass + at_head));
    costs.stages[static_cast<std::size_t>(s)].b = to_nanoseconds(Seconds(3 * pass + 2 * at_head));
  }
  const StepMetrics step = time_pipeline(schedule, costs, {.transfers = TransferMode::batched});
  return to_seconds(step.step_time).count() + after_backward(r);
}

}  // namespace

CaseResult reproduce_vtrain(const Publications& published) {
  std::vector<VtrainRow> rows;
  for (const PublishedRow& cells : published.table("vtrain.csv"))
    rows.push_back(read_vtrain_row(cells));
  const VtrainConstants constants = fit(rows);
  CaseResult result;
  for (const VtrainRow& row : rows) {
    // Rows that taught the constants are no forecasts.
    result.add(row.p == 1 ? Role::calibrated : Role::predicted,
               {row.name, "iteration, ms", row.iteration_ms, iteration_s(row, constants) * 1e3});
  }
  result.notes.push_back(
      fmt::format("Six constants, from the p = 1 rows: matrix products at {:.0f} % of peak; {:.0f} "
                  "B a score and {:.0f} B an "
                  "activation of memory traffic; all-reduces at {:.0f} % of NVLink and {:.0f} % of "
                  "a node's 100 GB/s; {:.0f} us "
                  "of launches a layer and pass.",
                  100 / constants[0], 20 * constants[1], 20 * constants[2], 100 / constants[3],
                  100 / constants[4], 100 * constants[5]));
  result.notes.emplace_back(
      "39.1B with b = 2 and t = 2 is slower than with b = 3 on the same devices, whose "
      "micro-batches do more: nothing "
      "that a "
      "message, a kernel, a launch or a wave of tiles costs does that, so no rule was made for it. "
      "The case builtin "
      "forecasts "
      "the same rows with nothing fitted.");
  result.notes.emplace_back(
      "The published predictor's mean error on rows of several nodes is 14.7 %.");
  return result;
}

}  // namespace weir

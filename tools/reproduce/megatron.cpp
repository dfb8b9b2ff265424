// Megatron-LM (Narayanan et al., SC 2021): its count of parameters, and its 175B rows from one
// constant.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kMegatronVocabulary = 51200, kMegatronSequence = 2048;

// Equation 2: P = 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)); l layers of hidden size h.
double megatron_parameters(double l, double h) {
  return 12 * l * h * h *
         (1 + 13 / (12 * h) + (kMegatronVocabulary + kMegatronSequence) / (12 * l * h));
}

struct MegatronRow {
  std::string name;
  Printed rate;
  int p = 1, m = 1;
};

// The rate of a device over its rate without a bubble: 1F1B with equal stages, I = W = F.
double efficiency(const MegatronRow& row) {
  const Schedule schedule = named_schedule("1f1b", row.p, 1, row.m);
  const Seconds unit(1e-3);
  const StepMetrics step =
      time_pipeline(schedule, equal_stages(schedule, {unit, unit, unit, Seconds(0)}));
  return step.ideal / to_seconds(step.step_time);
}

}  // namespace

CaseResult reproduce_megatron(const Publications& published) {
  CaseResult result;
  for (const PublishedRow& row : published.table("megatron-2021-table1.csv")) {
    result.add(Role::formula,
               {fmt::format("table 1, l={} h={}", row.integer("layers"), row.integer("hidden")),
                "parameters, billions (equation 2)", row.printed("parameters_billion"),
                megatron_parameters(row.integer("layers"), row.integer("hidden")) / 1e9});
  }
  std::vector<MegatronRow> rows;
  for (const PublishedRow& cells : published.table("megatron-2021-table2.csv")) {
    const int t = cells.integer("tensor_parallel"), p = cells.integer("pipeline_parallel");
    // Replicas follow from the devices, and with them each one's micro-batches.
    const int replicas = cells.share("gpus", t * p);
    rows.push_back({fmt::format("table 2, {} GPUs p={}", cells.integer("gpus"), p),
                    cells.printed("tflops_per_gpu"), p,
                    cells.share("batch", replicas * cells.integer("micro_batch"))});
  }
  // Rate without a bubble: the one constant, by which every other row is forecast.
  const double bubble_free = rows.front().rate.value / efficiency(rows.front());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    // The first row sets the constant.
    result.add(r == 0 ? Role::calibrated : Role::predicted,
               {fmt::format("{} M={}", rows[r].name, rows[r].m), "TFLOP/s a GPU", rows[r].rate,
                bubble_free * efficiency(rows[r])});
  }
  result.notes.push_back(
      fmt::format("One constant, {:.1f} TFLOP/s without a bubble, from table 2's first row; 1F1B "
                  "does the rest.",
                  bubble_free));
  result.notes.emplace_back(
      "Table 1's rates are left out (micro-batch size and interleaving are not stated), and table "
      "2's days, the same "
      "rates printed to two digits.");
  return result;
}

}  // namespace weir

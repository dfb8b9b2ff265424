// Formula tables of the literature against the simulator: the row's schedule runs with unit times,
// and what comes out must be what the formula prints.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/generators/list_schedule.hpp"
#include "plan/words/error.hpp"
#include "tools/reproduce/pipeline.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr double kUnit = 1e-3;  // s

struct Row {
  std::string source, method, quantity;
  int pp = 1, v = 1, m = 1;
};

// Chimera's order is a rule for choosing the next action, here at the F = B of its formula; the
// generator's is at B = 2 F.
Schedule chimera_at_equal_times(const Row& row) {
  const ListRule rule{.times = {.f = 2, .i = 1, .w = 1}, .split = false, .most_in_flight = row.pp};
  return schedule_or_refusal(list_schedule("chimera", bidirectional_shape(row.pp, row.m), rule));
}

Schedule schedule_of(const Row& row) {
  if (row.method == "chimera") return chimera_at_equal_times(row);
  const bool folded = row.method == "dualpipev";  // pp stages on pp / 2 devices
  return named_schedule(row.method, folded ? row.pp / 2 : row.pp, row.v, row.m);
}

// Chimera's ratio holds at F = B, the others are printed at F = I = W.
EqualStage unit_times(const std::string& source) {
  const double half = source == "chimera" ? kUnit / 2 : kUnit;
  return {Seconds(kUnit), Seconds(half), Seconds(half), Seconds(0)};
}

// DeepSeek's stage is one of pp, whatever a device holds; Megatron's p stages are its devices, a
// chunk takes 1/v.
EqualStage stage_times(const Row& row) {
  EqualStage times = unit_times(row.source);
  if (row.source == "megatron") {
    times.f /= row.v;
    times.i /= row.v;
    times.w /= row.v;
  }
  return times;
}

double weight_copies(const std::string& method) {
  const auto all = generators();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Generator& g) { return g.name == method; });
  if (found == all.end())
    throw InputError("schedule-formulas.csv", "method", "no schedule is called " + method);
  return found->weight_copies;
}

double quantity_of(const Row& row) {
  const Schedule schedule = schedule_of(row);
  const std::vector<std::int32_t> in_flight = peak_in_flight(schedule);
  if (row.quantity == "activations") return *std::max_element(in_flight.begin(), in_flight.end());
  if (row.quantity == "activations_least")
    return *std::min_element(in_flight.begin(), in_flight.end());
  if (row.quantity == "parameters") return weight_copies(row.method);
  const StepMetrics step =
      time_pipeline(schedule, equal_stages(schedule, stage_times(row)), {.fuse_overlapped = true});
  const double idle = (to_seconds(step.step_time) - step.ideal).count();
  if (row.quantity == "bubble") return idle / kUnit;
  if (row.quantity == "bubble_ratio") return idle / to_seconds(step.step_time).count();
  if (row.quantity == "bubble_over_ideal") return idle / step.ideal.count();
  throw InputError("schedule-formulas.csv", "quantity",
                   fmt::format("\"{}\" is not known", row.quantity));
}

}  // namespace

CaseResult reproduce_formulas(const Publications& published) {
  CaseResult result;
  for (const PublishedRow& cells : published.table("schedule-formulas.csv")) {
    const Row row{cells.text("source"), cells.text("method"), cells.text("quantity"),
                  cells.integer("pp"),  cells.integer("v"),   cells.integer("m")};
    result.add(Role::formula, {fmt::format("{} {}, stages={} v={} M={}", row.source, row.method,
                                           row.pp, row.v, row.m),
                               fmt::format("{} {}", row.quantity, cells.text("formula")),
                               cells.printed("value"), quantity_of(row)});
  }
  result.notes.emplace_back(
      "Equal stages, no communication; F = I = W = 1, Chimera's rows F = B = 1; simulated.");
  return result;
}

}  // namespace weir

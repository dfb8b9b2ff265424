// Zero Bubble (Qi et al., ICLR 2024), Table 5: bubble rates calculated from the times of Table 9,
// by span.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/zero_bubble.hpp"

#include <fmt/format.h>

#include "tools/reproduce/reproduction.hpp"

namespace weir {

std::vector<ZeroBubbleRow> zero_bubble_rows(const Publications& published) {
  std::vector<ZeroBubbleRow> rows;
  for (const PublishedRow& cells : published.table("zero-bubble.csv")) {
    const auto ms = [&](const char* column) { return Seconds(cells.number(column) * 1e-3); };
    rows.push_back(
        {cells,
         fmt::format("{} p={} m={}", cells.text("model"), cells.text("p"), cells.text("m")),
         cells.integer("layers"),
         cells.integer("heads"),
         cells.integer("hidden"),
         cells.integer("sequence"),
         cells.integer("p"),
         cells.integer("b"),
         cells.integer("m"),
         {ms("f_ms"), ms("i_ms"), ms("w_ms"), ms("latency_ms")}});
  }
  return rows;
}

Schedule zero_bubble_schedule(const ZeroBubbleRow& row, const std::string& name) {
  return named_schedule(name, row.p, name == "interleaved-1f1b" ? row.layers_per_stage() : 1,
                        row.m);
}

CostTable zero_bubble_costs(const ZeroBubbleRow& row, const Schedule& schedule) {
  EqualStage stage = row.times;
  const int chunks = schedule.shape.stages / schedule.shape.ranks;
  stage.f /= chunks;
  stage.i /= chunks;
  stage.w /= chunks;
  return equal_stages(schedule, stage);
}

namespace {

constexpr const char* kShortOfCommunication =
    "the paper's figure is short of p T_comm: its code checks the edge from the last device back "
    "to the first only for "
    "the first micro-batch of each group of p";

double bubble_rate(const ZeroBubbleRow& row, const std::string& name) {
  const Schedule schedule = zero_bubble_schedule(row, name);
  return time_pipeline(schedule, zero_bubble_costs(row, schedule)).bubble_fraction_span;
}

// The paper's own accounting of 1F1B-I: (p - 1) T / v + (2 (p v - 1) - p) T_comm over that and m T,
// T = F + I + W.
double papers_interleaved_rate(const ZeroBubbleRow& row) {
  const double p = row.p, v = row.layers_per_stage();
  const Seconds work = row.times.f + row.times.i + row.times.w;
  const Seconds bubble = work * ((p - 1) / v) + row.times.latency * (2 * (p * v - 1) - p);
  return bubble / (bubble + work * row.m);
}

}  // namespace

CaseResult reproduce_zero_bubble_rates(const Publications& published) {
  CaseResult result;
  for (const ZeroBubbleRow& row : zero_bubble_rows(published)) {
    const auto formula = [&](const char* quantity, const char* column, double value) {
      result.add(Role::formula, {row.name, quantity, row.cells.printed(column), value});
    };
    // Simulated once and used twice: ZB-1p's schedule is ZB-H1.
    const double h1 = bubble_rate(row, "zb-h1"), interleaved = bubble_rate(row, "interleaved-1f1b");
    formula("bubble rate, 1F1B", "bubble_1f1b", bubble_rate(row, "1f1b"));
    formula("bubble rate, ZB-H1", "bubble_zb_h1", h1);
    formula("bubble rate, ZB-H2", "bubble_zb_h2", bubble_rate(row, "zb-h2"));
    formula("bubble rate, ZB-1p (its schedule is ZB-H1)", "bubble_zb_1p", h1);
    // The paper's accounting leaves communication out of 1F1B-I: both figures are shown.
    formula("bubble rate, 1F1B-I by the paper's accounting", "bubble_1f1b_i",
            papers_interleaved_rate(row));
    result.add_anomaly({row.name, "bubble rate, 1F1B-I simulated",
                        row.cells.printed("bubble_1f1b_i"), interleaved},
                       kShortOfCommunication);
  }
  result.notes.emplace_back(
      "Every stage takes the profiled times; a crossing takes T_comm and occupies no device; "
      "1F1B-I has one layer a "
      "chunk.");
  result.notes.emplace_back(
      "ZB-2p is left out: its schedules come from the authors' search and are not published.");
  return result;
}

}  // namespace weir

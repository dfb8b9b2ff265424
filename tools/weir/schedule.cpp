// What people read of `weir schedule`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/schedule/schedule.hpp"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"
#include "tools/weir/print/terminal_timeline.hpp"

namespace weir {
namespace {

Table generator_table() {
  Table table{{left("schedule"),
               left("bubble"),
               left("in flight"),
               {"copies of the weights"},
               left("source")},
              {},
              {}};
  for (const auto all : {generators(), vocabulary_generators()}) {
    for (const Generator& g : all)
      table.rows.push_back({std::string(g.name), std::string(g.bubble), std::string(g.in_flight),
                            g.weight_copies, std::string(g.source)});
  }
  return table;
}

void print_generators(Printout& out) {
  // People read formulas in lines of their own.
  if (out.for_programs()) return out.show(generator_table());
  for (const auto all : {generators(), vocabulary_generators()}) {
    for (const Generator& g : all) {
      out.say("{}\n  bubble {}; in flight {}; {} cop{} of the weights\n  {}\n", g.name, g.bubble,
              g.in_flight, g.weight_copies, g.weight_copies == 1 ? "y" : "ies", g.source);
    }
  }
}

// The receive slots to prove it for: as many as were asked for, or 2, a plan's default, or more
// where 2 are too few.
void print_proof(Printout& out, const Schedule& schedule, const std::optional<int>& asked) {
  LoweringOptions lowering;
  lowering.slots = asked ? *asked : fewest_slots(schedule, 2);
  const Program program = lower(schedule, lowering);
  if (find_cycle(program)) {
    throw NoFeasiblePlan(fmt::format("deadlocks with {} receive slots an edge ({} are enough):\n{}",
                                     lowering.slots, fewest_slots(schedule, 1),
                                     describe_deadlock(program)));
  }
  out.say("cannot deadlock with {} receive slots an edge{} (proved: {} operations, no cycle)\n",
          lowering.slots, !asked && lowering.slots > 2 ? ", but with fewer" : "", program.size());
}

std::string verdict_on(const app::ScheduleRequest& request, const app::ComparedSchedule& one) {
  if (!one.schedule) return "refused: " + one.refused;
  if (!one.deadlocks) return "no deadlock";
  return one.fewest_slots ? fmt::format("deadlocks with {} receive slots", *request.slots)
                          : fmt::format("deadlocks with {} transfers", request.transfers);
}

Table table_without_rows() {
  return {{left("schedule"),
           {"v"},
           {"step"},
           {"over bound"},
           {"bubble"},
           {"by span"},
           {"in flight"},
           {"slots"},
           left("verdict")},
          {},
          {}};
}

std::vector<Cell> row_of(const app::ScheduleRequest& request, const app::ComparedSchedule& one) {
  std::vector<Cell> row(table_without_rows().columns.size());
  // One that stands alone goes by its schedule's name.
  row.front() = one.name.empty() ? one.schedule->name : one.name;
  row.back() = verdict_on(request, one);
  if (!one.schedule) return row;
  const ScheduleShape& shape = one.schedule->shape;
  row[1] = shape.stages / shape.ranks;
  const double held = most_in_flight(*one.schedule);
  row[6] = number(held, fmt::format("{:.4g}", held));
  if (one.fewest_slots) row[7] = *one.fewest_slots;
  if (!one.timed) return row;
  const Forecast& f = one.timed->forecast;
  row[2] = f.step_time;
  row[3] = percent(f.step_time / f.lower_bound - 1, "{:.2f}%");
  row[4] = percent(f.metrics.bubble_fraction, "{:.2f}%");
  row[5] = percent(f.metrics.bubble_fraction_span, "{:.2f}%");
  return row;
}

// For programs: a row as of several beside each other.
void show_row(Printout& out, const app::ScheduleRequest& request,
              const app::ComparedSchedule& one) {
  Table table = table_without_rows();
  std::vector<Cell>& row = table.rows.emplace_back(row_of(request, one));
  if (request.transfers == to_string(TransferMode::buffered))
    row[7] = fewest_slots(*one.schedule, 1);
  out.show(table);
}

void print_times(Printout& out, const app::ScheduleRequest& request,
                 const app::ScheduleResult& result) {
  const Schedule& schedule = *result.schedules.front().schedule;
  const auto& [program, trace, forecast] = *result.schedules.front().timed;
  out.say("{}: K = {}, {} stages, M = {}, at most {:.4g} in flight on a rank\n", schedule.name,
          schedule.shape.ranks, schedule.shape.stages, schedule.shape.microbatches,
          most_in_flight(schedule));
  // Buffered transfers are proved with slots; the others have been lowered as they block.
  if (request.transfers == to_string(TransferMode::buffered)) {
    print_proof(out, schedule, request.slots);
  } else {
    out.say("cannot deadlock with {} transfers (proved: {} operations, no cycle)\n",
            request.transfers, program.size());
  }
  out.say("step {}, bubble {:.4f} by span, lower bound {}\n", format_duration(forecast.step_time),
          forecast.metrics.bubble_fraction_span, format_duration(forecast.lower_bound));
  if (out.for_programs()) return show_row(out, request, result.schedules.front());
  draw_in_terminal(out, trace, out.width());
}

// Several beside each other, and their timelines on one scale.
void print_several(Printout& out, const app::ScheduleRequest& request,
                   const std::vector<app::ComparedSchedule>& schedules) {
  Table table = table_without_rows();
  std::vector<TitledTrace> traces;
  for (const app::ComparedSchedule& one : schedules) {
    table.rows.push_back(row_of(request, one));
    if (one.timed) traces.push_back({one.name, &one.timed->trace});
  }
  out.show(table);
  if (out.for_programs()) return;
  out.say("in flight: micro-batches of a whole rank; slots: the fewest receive slots an edge\n\n");
  draw_in_terminal(out, traces, out.width());
}

void print_grid(Printout& out, const app::GridProof& proof) {
  Table table{{{"K"},
               {"M"},
               {fmt::format("{} slots", proof.slots)},
               {"rendezvous"},
               {"batched"},
               {"fewest slots"},
               {"in flight"},
               {"over bound"},
               left("note")},
              {},
              {}};
  int proved = 0;
  for (const app::Verdict& v : proof.verdicts) {
    // A shape that the schedule does not have is neither proved nor refuted.
    if (!v.refused.empty()) {
      table.rows.push_back(
          {v.ranks, v.microbatches, "-", "-", "-", "-", "-", "-", "refused: " + v.refused});
      continue;
    }
    ++proved;
    const auto word = [](std::optional<bool> safe) {
      return !safe ? "-" : *safe ? "free" : "DEADLOCK";
    };
    table.rows.push_back(
        {v.ranks, v.microbatches, word(v.safe[0]), word(v.safe[1]), word(v.safe[2]), v.fewest_slots,
         number(v.in_flight, fmt::format("{:.4g}", v.in_flight)), percent(v.gap, "{:.2f}%"), ""});
  }
  out.show(table);
  for (const app::CounterExample& e : proof.examples) {
    out.say("\n{} deadlocks first at K = {}, M = {}:\n{}\n", to_string(e.mode), e.ranks,
            e.microbatches, e.cycle);
  }
  out.say(
      "\nproved for the {} (K, M) listed as free, and for no others; over bound at F = I = W, no "
      "communication\n",
      proved);
}

}  // namespace

void print(Printout& out, const app::ScheduleRequest& request, const app::ScheduleResult& result) {
  out.set_width(app::characters(request.picture.width));
  if (request.list) {
    print_generators(out);
  } else if (result.proof) {
    print_grid(out, *result.proof);
  } else if (!result.csv.empty()) {
    // It was asked for on stdout, whatever the format of tables.
    fmt::print("{}", printable(result.csv));
  } else if (result.schedules.size() > 1) {
    print_several(out, request, result.schedules);
  } else {
    print_times(out, request, result);
  }
}

}  // namespace weir

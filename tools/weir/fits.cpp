// What people read of `weir fits`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/fits/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/forecast/training_cost.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

struct KindHeld {
  MemoryKind kind;
  Bytes bytes;
};

// Largest first, without those that hold nothing.
std::vector<KindHeld> held_by(const RankMemory& memory) {
  std::vector<KindHeld> all;
  for (const MemoryKind kind : kMemoryKinds)
    if (memory.at_peak[kind].count() > 0) all.push_back({kind, memory.at_peak[kind]});
  std::ranges::stable_sort(all, std::ranges::greater{}, &KindHeld::bytes);
  return all;
}

void print_ranks(Printout& out, const Forecast& f) {
  const auto [low, high] = std::ranges::minmax(f.memory, {}, &RankMemory::peak);
  // Ranks within 5 % of each other fill a table with one number.
  constexpr double kSame = 1.05;
  const bool same =
      static_cast<double>(high.peak.count()) <= kSame * static_cast<double>(low.peak.count());
  if (same && !out.for_programs()) return;
  Table table{{{"rank"}, {"peak"}, {"at most"}, left("most of it")}, {}, {}};
  // People read what holds most and how much together, programs as two columns.
  if (out.for_programs()) table.columns.push_back({"of it"});
  for (std::size_t r = 0; r < f.memory.size(); ++r) {
    const auto held = held_by(f.memory[r]);
    auto& row =
        table.rows.emplace_back(std::vector<Cell>{r, f.memory[r].peak, f.memory[r].upper, "", ""});
    row.resize(table.columns.size());
    if (held.empty()) continue;
    const std::string kind(to_string(held.front().kind));
    row[3] = {fmt::format("{} {}", kind, format_bytes(held.front().bytes)), kind, ""};
    if (out.for_programs()) row[4] = held.front().bytes;
  }
  out.show(table);
}

std::string host_text(const HostHeld& host) {
  return fmt::format("a node's host holds {}, {} at most, of {}", format_bytes(host.held()),
                     format_bytes(host.band().upper), format_bytes(host.memory));
}

void print_fitting(Printout& out, const app::FittingChange& c) {
  out.say("  {}: {} expected, {} at most, step {} ({:.2f} times); {}\n", c.what,
          format_bytes(c.forecast.peak_memory()), format_bytes(c.forecast.peak_memory_upper()),
          format_duration(c.forecast.step_time), c.ratio, to_text(count_of(c.edits)));
  if (c.forecast.training_tokens) out.say("    {}\n", training_text(c.forecast));
  for (const app::Edit& a : c.edits.all) {
    if (!c.edits.of_job) break;  // what changes in a plan's file, `plan` says
    const auto value = [](const std::string& v) { return v.empty() ? v : " " + v; };
    if (a.after) {
      out.say("    --{}{}{}\n", a.name, value(*a.after),
              a.before ? " instead of" + (a.before->empty() ? " the flag" : value(*a.before)) : "");
    } else {
      out.say("    without --{}\n", a.name);
    }
  }
  for (const std::string& line : not_carried_lines(c.edits)) out.say("    {}\n", line);
}

void print_advice(Printout& out, const app::FitsResult& result) {
  const Forecast& f = result.forecast;
  if (f.fits() == Fits::yes) {
    // "Surely": against the upper bound, not the expectation.
    const Bytes limit = *f.memory_limit_of(result.fullest), most = f.memory[result.fullest].upper;
    out.say("room left, surely: {}\n", format_bytes(limit - most));
    if (!result.faster) return out.say("no single change uses it for speed\n");
    out.say("what uses it for speed:\n");
    return print_fitting(out, *result.faster);
  }
  // From one change to two, then to more devices: the cheapest first.
  if (!result.changes.empty()) {
    out.say("{}it surely fits with one of\n",
            result.choices == 1 ? "" : "no single change is enough; ");
    for (const app::FittingChange& c : result.changes) print_fitting(out, c);
    return;
  }
  out.say("no change that was tried, and no two of them, make it surely fit\n");
  if (!result.larger) return out.say("nor do up to 8 times as many devices\n");
  // Of equally many devices the ratio of steps says it all.
  const std::string cost = cost_clause(result.larger->forecast);
  out.say("on {} devices instead of {}{}{}:\n", result.larger->plan.devices(),
          result.plan.devices(), cost, cost.empty() ? "" : " instead of " + cost_text(f));
  print_fitting(out, *result.larger);
}

}  // namespace

void print(Printout& out, const app::FitsRequest& request, const app::FitsResult& result) {
  const Forecast& f = result.forecast;
  if (const auto remark = app::remark_on(request.stack, f.stack)) note(*remark);
  const RankMemory& full = f.memory[result.fullest];
  const char* verdict = f.fits() == Fits::yes     ? "fits"
                        : f.fits() == Fits::maybe ? "may not fit"
                                                  : "does not fit";
  const std::string host = f.host ? host_text(*f.host) : std::string();
  // What is full goes first.
  out.say("{}: {} ({:.0f} % that it fits): {}rank {} holds {}, {} at most, of {}\n", verdict,
          summary(result.plan), 100 * f.fits_probability(), app::host_is_full(f) ? host + "; " : "",
          result.fullest, format_bytes(full.peak), format_bytes(full.upper),
          format_bytes(*f.memory_limit_of(result.fullest)));
  for (const auto& [kind, bytes] : held_by(full))
    out.say("  {} {}\n", to_string(kind), format_bytes(bytes));
  if (f.training_tokens) out.say("{}\n", training_text(f));
  print_ranks(out, f);
  if (f.host && !app::host_is_full(f)) out.say("{}\n", host);
  print_advice(out, result);
}

}  // namespace weir

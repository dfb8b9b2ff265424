// The kernels of a run as two tables: by name, and by kind of action.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/kernels_text.hpp"

#include <fmt/format.h>

#include "plan/words/units.hpp"
#include "traces/kernel_table.hpp"

namespace weir {
namespace {

double microseconds(Nanoseconds time) { return Seconds(time).count() * 1e6; }

constexpr std::size_t kNameWidth = 56;

// The middle says least: a library's names begin with what they are and end with the layout.
std::string shortened(const std::string& name) {
  if (name.size() <= kNameWidth) return name;
  const std::size_t tail = (kNameWidth - 3) / 3;
  return name.substr(0, kNameWidth - 3 - tail) + "..." + name.substr(name.size() - tail);
}

std::string row_text(const std::string& name, const KernelRow& row) {
  return fmt::format("  {:<{}} {:>8} {:>10} {:>6.1f} %\n", shortened(name), kNameWidth, row.calls,
                     format_duration(Seconds(row.total)), 100 * row.share);
}

// What is missing from the table, or may be.
std::string losses_text(const KernelTrace& kernels) {
  std::string text;
  if (kernels.outside > 0) text += fmt::format("; {} ran outside of actions", kernels.outside);
  if (kernels.untimed > 0) text += fmt::format("; {} without a time are left out", kernels.untimed);
  if (kernels.dropped > 0) {
    text += fmt::format("; {} records were dropped, so kernels are missing: run fewer steps",
                        kernels.dropped);
  }
  return text;
}

}  // namespace

std::string kernels_text(const Trace& trace, const KernelTrace& kernels) {
  const KernelTable table = tabulate(trace, kernels);
  std::string text =
      fmt::format("{} kernels, copies and fills in {} steps, {} in all{}\n", kernels.spans.size(),
                  trace.steps.size(), format_duration(Seconds(table.total)), losses_text(kernels));
  text +=
      fmt::format("  {:<{}} {:>8} {:>10} {:>8}\n", "kernel", kNameWidth, "calls", "total", "share");
  for (const KernelRow& row : table.kernels) text += row_text(row.name, row);
  // A tail of small kernels would bury the table: they are one row.
  if (table.other_names > 0)
    text += row_text(fmt::format("({} others)", table.other_names), table.others);
  text += fmt::format("  {:<10} {:>8} {:>8} {:>10} {:>16}\n", "action", "actions", "kernels",
                      "time", "nothing running");
  for (const ActionRow& row : table.actions) {
    text +=
        fmt::format("  {:<10} {:>8} {:>8} {:>10} {:>14.1f} %\n", to_string(row.kind), row.actions,
                    row.kernels, format_duration(Seconds(row.time)), 100 * row.idle_share());
  }
  text += fmt::format(
      "clocks joined to within {:.1f} us; kernels reach beyond their action by up to {:.1f} us\n",
      microseconds(kernels.uncertainty), microseconds(kernels.overhang));
  text += "recording slows launches: for times, run without --kernels\n";
  return text;
}

}  // namespace weir

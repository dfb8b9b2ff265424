// One text row a rank, each action as wide as it is long.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/terminal_timeline.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "plan/words/per_kind.hpp"

namespace weir {

void draw_in_terminal(const Trace& trace) {
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  constexpr std::int64_t kCellsAcross = 4'000;
  std::int64_t shortest = trace.steps[0].end.count();
  for (const Span& span : trace.spans) {
    if (span.lane == LaneKind::compute && span.duration().count() > 0)
      shortest = std::min(shortest, span.duration().count());
  }
  const double scale = 5.0 / static_cast<double>(std::max<std::int64_t>(shortest, 1));
  const auto width = static_cast<std::size_t>(
      std::min<double>(kCellsAcross, static_cast<double>(trace.steps[0].end.count()) * scale));
  for (std::int32_t rank = 0; rank < trace.ranks; ++rank) {
    std::string row(width + 1, '.');
    std::vector<ActionKind> kinds(width + 1, ActionKind::OPTIMIZER);
    for (const Span& span : trace.spans) {
      if (span.lane != LaneKind::compute || span.rank.value != rank) continue;
      const auto first = static_cast<std::size_t>(static_cast<double>(span.start.count()) * scale);
      const auto last =
          std::min(static_cast<std::size_t>(static_cast<double>(span.end.count()) * scale), width);
      std::string cell = to_string(span.action);
      cell.resize(last > first ? last - first : 0, ' ');
      if (!cell.empty()) cell.back() = '|';
      for (std::size_t i = first; i < last; ++i) {
        row[i] = cell[i - first];
        kinds[i] = span.action.kind;
      }
    }
    fmt::print("{:>3} ", rank);
    static constexpr PerKind<const char*> kColours{.f = "\x1b[44;97m",
                                                   .i = "\x1b[46;30m",
                                                   .w = "\x1b[102;30m",
                                                   .b = "\x1b[42;30m",
                                                   .r = "",
                                                   .optimizer = ""};
    ActionKind now = ActionKind::OPTIMIZER;
    for (std::size_t i = 0; i < width; ++i) {
      if (colour && kinds[i] != now) {
        fmt::print("\x1b[0m{}", kColours[kinds[i]]);
        now = kinds[i];
      }
      fmt::print("{}", row[i]);
    }
    fmt::print("{}\n", colour ? "\x1b[0m" : "");
  }
}

}  // namespace weir

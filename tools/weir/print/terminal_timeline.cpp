// One text row a rank, each action as wide as it is long.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/terminal_timeline.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "plan/words/per_kind.hpp"
#include "tools/report/timeline.hpp"

namespace weir {
namespace {

constexpr std::size_t kCellsAcross = 4'000;
constexpr std::size_t kFewestCells = 5;  // of the shortest action that counts
// What is shorter than this share of the median action does not stretch the drawing: a stage
// without blocks, an optimizer of microseconds, would leave pages of dots between the others.
constexpr std::int64_t kShortestOfMedian = 4;
constexpr std::size_t kNumber = 4;  // characters of a rank's number before its row

// Cells a nanosecond.
double scale_of(const Trace& trace, std::size_t most) {
  const std::int64_t end = std::max<std::int64_t>(trace.steps[0].end.count(), 1);
  std::vector<std::int64_t> durations;
  std::size_t longest_name = 0;
  for (const Span& span : trace.spans) {
    if (span.lane != LaneKind::compute || span.duration().count() <= 0) continue;
    durations.push_back(span.duration().count());
    longest_name = std::max(longest_name, to_string(span.action).size());
  }
  if (durations.empty()) durations.push_back(end);
  std::ranges::sort(durations);
  // A few very short actions must not stretch the picture.
  const std::int64_t shortest =
      std::max(durations.front(), durations[durations.size() / 2] / kShortestOfMedian);
  const auto cells = static_cast<double>(std::max(kFewestCells, longest_name + 1));
  // Wide enough for the shortest action's name, and no wider than the most that is allowed.
  return std::min(cells / static_cast<double>(shortest),
                  static_cast<double>(most) / static_cast<double>(end));
}

const char* colour_of(ActionKind kind) {
  static constexpr PerKind<const char*> kColours{.f = "\x1b[44;97m",
                                                 .i = "\x1b[46;30m",
                                                 .w = "\x1b[102;30m",
                                                 .b = "\x1b[42;30m",
                                                 .r = "",
                                                 .optimizer = ""};
  return kColours[kind];
}

std::string coloured(const DrawnRow& row, std::size_t first, std::size_t last) {
  std::string text;
  std::pair now(ActionKind::OPTIMIZER, false);
  for (std::size_t i = first; i < last; ++i) {
    if (const std::pair here(row.kinds[i], bool(row.shaded[i])); here != now) {
      text += "\x1b[0m";
      text += colour_of(here.first);
      if (here.second) text += "\x1b[4m";
      now = here;
    }
    text += row.cells[i];
  }
  return text + "\x1b[0m";
}

std::vector<DrawnRow> rows_at(const Trace& trace, double scale) {
  const auto cell_of = [&](Nanoseconds time) {
    // Rounded down at both ends, so that neighbours share a border and never overlap.
    return static_cast<std::size_t>(static_cast<double>(time.count()) * scale);
  };
  const std::size_t width = cell_of(trace.steps[0].end);
  std::vector<DrawnRow> rows;
  for (std::int32_t rank = 0; rank < trace.ranks; ++rank) {
    rows.push_back({std::string(width, '.'), std::vector<ActionKind>(width, ActionKind::OPTIMIZER),
                    std::vector<bool>(width, false)});
  }
  for (const Span& span : trace.spans) {
    if (span.lane != LaneKind::compute) continue;
    DrawnRow& row = rows[static_cast<std::size_t>(span.rank.value)];
    const std::size_t first = cell_of(span.start), last = std::min(cell_of(span.end), width);
    const bool shaded = is_shaded(span.action, trace.ranks);
    std::string name = to_string(span.action);
    name.resize(last > first ? last - first : 0, ' ');
    // The last cell ends an action, so that equal neighbours stay apart.
    if (!name.empty()) name.back() = '|';
    for (std::size_t i = first; i < last; ++i) {
      row.cells[i] = name[i - first];
      row.kinds[i] = span.action.kind;
      row.shaded[i] = shaded;
    }
  }
  return rows;
}

// Whether escapes are obeyed where this is printed, and wanted.
bool shows_colours() {
  // Nothing here sets the environment.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

// The cells from `first` to `last`, a line a rank.
void print_fold(Printout& out, const std::vector<DrawnRow>& rows, std::size_t first,
                std::size_t last) {
  const bool colour = shows_colours();
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    out.say("{:>3} ", rank);
    // The escapes that colour it would be shown, not obeyed, by say().
    if (colour) {
      fmt::print("{}", coloured(rows[rank], first, last));
    } else {
      out.say("{}", rows[rank].cells.substr(first, last - first));
    }
    out.say("\n");
  }
}

// What stands on ranks that no action shows, below the last of their lines.
void print_notes(Printout& out, const Trace& trace) {
  for (std::int32_t rank = 0; rank < trace.ranks; ++rank) {
    if (const std::string note = note_of_rank(trace, rank); !note.empty())
      out.say("{:>3} {}\n", rank, note);
  }
}

}  // namespace

std::vector<DrawnRow> drawn_rows(const Trace& trace, std::size_t most) {
  return rows_at(trace, scale_of(trace, most));
}

void draw_in_terminal(Printout& out, std::span<const TitledTrace> traces,
                      std::optional<std::size_t> width) {
  // The scale that the shortest actions of any of them need, and none too long for it.
  double scale = 0;
  std::int64_t longest = 1;
  for (const TitledTrace& one : traces) {
    scale = std::max(scale, scale_of(*one.trace, kCellsAcross));
    longest = std::max(longest, one.trace->steps[0].end.count());
  }
  scale = std::min(scale, static_cast<double>(kCellsAcross) / static_cast<double>(longest));
  std::vector<std::vector<DrawnRow>> drawn;
  std::size_t cells = 0;
  for (const TitledTrace& one : traces) {
    drawn.push_back(rows_at(*one.trace, scale));
    cells = std::max(cells, drawn.back().empty() ? 0 : drawn.back().front().cells.size());
  }
  // A line has room for its number and at least one action.
  const std::size_t fold = width ? std::max(*width, kNumber + kFewestCells) - kNumber : cells;
  for (std::size_t first = 0; first < cells; first += fold) {
    if (first > 0) out.say("\n");
    for (std::size_t i = 0; i < traces.size(); ++i) {
      const std::size_t its = drawn[i].empty() ? 0 : drawn[i].front().cells.size();
      if (first >= its) continue;
      if (!traces[i].title.empty()) out.say("{}\n", printable_in_line(traces[i].title));
      print_fold(out, drawn[i], first, std::min(first + fold, its));
      if (first + fold >= its) print_notes(out, *traces[i].trace);
    }
  }
}

void draw_in_terminal(Printout& out, const Trace& trace, std::optional<std::size_t> width) {
  draw_in_terminal(out, std::array{TitledTrace{"", &trace}}, width);
}

}  // namespace weir

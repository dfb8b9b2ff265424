// Reader and writer of PyTorch's schedule dialect. The reader collects cells, decides the dialect
// of the whole file, and only then turns letters into kinds, because old files mean another thing
// by B.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/schedule_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

struct Cell {
  std::string text;
  Rank row;
  std::size_t column = 0;
  bool overlapped_with_next = false;
};

[[noreturn]] void refuse(const std::string& file, const Cell& cell, std::string_view why) {
  throw InputError(file, fmt::format("row {}, column {}", cell.row.value + 1, cell.column + 1),
                   fmt::format("\"{}\": {}", cell.text.substr(0, 60), why));
}

// "(0F1;3B0)OVERLAP_F_B" becomes its two actions, the first marked.
void add_cell(std::vector<Cell>& cells, Cell cell, const std::string& file) {
  if (cell.text.empty()) return;
  if (cell.text.front() != '(') {
    cells.push_back(std::move(cell));
    return;
  }
  constexpr std::string_view kEnd = ")OVERLAP_F_B";
  const auto middle = cell.text.find(';');
  if (!cell.text.ends_with(kEnd) || middle == std::string::npos)
    refuse(file, cell, "expected (ACTION;ACTION)OVERLAP_F_B");
  Cell first = cell, second = cell;
  first.text = cell.text.substr(1, middle - 1);
  first.overlapped_with_next = true;
  second.text = cell.text.substr(middle + 1, cell.text.size() - kEnd.size() - middle - 1);
  cells.push_back(first);
  cells.push_back(second);
}

// Our one addition to the dialect, a first line for schedules that slice sequences: "# segments=2".
constexpr std::string_view kSegments = "# segments=";

std::int32_t parse_segments(std::string_view line, const std::string& file) {
  const auto segments = whole_number<std::int32_t>(trimmed(line.substr(kSegments.size())));
  if (!segments || *segments < 1 || *segments > kMostMicrobatches)
    throw InputError(file, "row 1", "expected the slices of a sequence, as \"# segments=2\"");
  return *segments;
}

std::vector<Cell> read_cells(const std::string& text, const std::string& file, std::size_t& rows,
                             std::int32_t& segments) {
  std::vector<Cell> cells;
  std::istringstream in(without_byte_order_mark(text));
  rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (rows == 0 && line.starts_with(kSegments)) {
      segments = parse_segments(line, file);
      continue;
    }
    // A line of commas is a rank without actions; an empty one is no rank.
    if (trimmed(line).empty() && line.find(',') == std::string::npos) continue;
    std::istringstream row(line);
    std::size_t column = 0;
    for (std::string cell; std::getline(row, cell, ','); ++column) {
      add_cell(cells, {std::string(trimmed(cell)), Rank{rows}, column, false}, file);
    }
    ++rows;
  }
  return cells;
}

// "0WAIT_SEND_F2" waits for "0SEND_F2"; sends and sums of gradients are waited for, nothing else.
bool is_wait(std::string_view text) {
  constexpr std::string_view kWait = "WAIT_";
  const auto at = text.find(kWait);
  if (at == std::string_view::npos) return false;
  const auto awaited =
      parse_action(fmt::format("{}{}", text.substr(0, at), text.substr(at + kWait.size())));
  return awaited && (is_send(awaited->kind) || awaited->kind == ActionKind::REDUCE_GRAD);
}

// Messages and waits in files are checked for form and dropped: old files batch two messages as
// "0SEND_F2_1RECV_B0".
bool is_message(std::string_view text) {
  if (const auto action = parse_action(text)) return !is_compute(action->kind);
  if (is_wait(text)) return true;
  for (std::size_t at = text.find('_'); at != std::string_view::npos; at = text.find('_', at + 1)) {
    const auto left = parse_action(text.substr(0, at));
    const auto right = parse_action(text.substr(at + 1));
    if (left && right) return !is_compute(left->kind) && !is_compute(right->kind);
  }
  return false;
}

struct Letters {
  bool has_bw = false, has_i = false, has_w = false, has_b = false;
};

// A compute cell of any dialect: stage, letters, micro-batch.
struct RawAction {
  Stage stage;
  std::string_view letters;
  Microbatch microbatch;
};

std::optional<RawAction> parse_raw(std::string_view text) {
  const auto letters = text.find_first_not_of("0123456789");
  if (letters == std::string_view::npos || letters == 0) return std::nullopt;
  const auto digits = text.find_first_of("0123456789", letters);
  if (digits == std::string_view::npos) return std::nullopt;
  // Stage and micro-batch are read as those of an F, whatever the letters.
  const std::string as_forward = fmt::format("{}F{}", text.substr(0, letters), text.substr(digits));
  const auto action = parse_action(as_forward);
  if (!action) return std::nullopt;
  const std::string_view word = text.substr(letters, digits - letters);
  if (word != "F" && word != "B" && word != "I" && word != "W" && word != "BW") return std::nullopt;
  return RawAction{action->stage, word, action->microbatch};
}

ActionKind kind_of(std::string_view letters, bool old_dialect) {
  if (letters == "F") return ActionKind::F;
  if (letters == "W") return ActionKind::W;
  if (letters == "I") return ActionKind::I;
  if (letters == "BW") return ActionKind::B;
  // Old files have B for I, and BW for both halves.
  return old_dialect ? ActionKind::I : ActionKind::B;
}

bool old_dialect(const Letters& seen, const std::string& file) {
  if (seen.has_bw && seen.has_i) {
    throw InputError(file, "",
                     "ambiguous dialect: BW (old files) and I (new files) in one schedule");
  }
  return seen.has_bw || (seen.has_b && seen.has_w && !seen.has_i);
}

// Stages S.. are copies of 0..S-1 when the two halves share no micro-batch (bidirectional
// schedules).
bool halves_share_nothing(const Schedule& schedule, std::int32_t half) {
  std::set<std::int32_t> low, high;
  for (const auto& order : schedule.order) {
    for (const Action& action : order) {
      (action.stage.value < half ? low : high).insert(action.microbatch.value);
    }
  }
  return std::ranges::none_of(low, [&high](std::int32_t m) { return high.contains(m); });
}

void place_stages(Schedule& schedule, const std::string& file) {
  ScheduleShape& shape = schedule.shape;
  shape.ranks = static_cast<std::int32_t>(schedule.order.size());
  std::int64_t actions = 0;
  for (const auto& order : schedule.order) {
    actions += static_cast<std::int64_t>(order.size());
    for (const Action& action : order) {
      shape.stages = std::max(shape.stages, action.stage.value + 1);
      shape.microbatches = std::max(shape.microbatches, action.microbatch.value + 1);
    }
  }
  // Every stage passes every micro-batch of its replica forward and back: a file that names larger
  // ones than it has actions for is refused before anything is made of their size.
  const auto cells = static_cast<std::int64_t>(shape.stages) * shape.microbatches;
  if (cells > actions) {
    throw InputError(
        file, "",
        fmt::format("{} stages and {} micro-batches need at least {} actions, found {}",
                    shape.stages, shape.microbatches, cells, actions));
  }
  shape.rank_of_stage.assign(shape.stages, Rank{-1});
  for (const Rank rank : schedule.order.ids()) {
    for (const Action& action : schedule.order[rank]) {
      Rank& place = shape.rank_of_stage[action.stage];
      if (place.value >= 0 && place != rank) {
        throw InputError(
            file, fmt::format("row {}", rank.value + 1),
            fmt::format("stage {} is also in row {}", action.stage.value, place.value + 1));
      }
      place = rank;
    }
  }
  for (const Stage stage : shape.rank_of_stage.ids()) {
    if (shape.rank_of(stage).value < 0)
      throw InputError(file, "", fmt::format("stage {} is in no row", stage.value));
  }
  if (shape.stages % 2 == 0 && halves_share_nothing(schedule, shape.stages / 2)) {
    shape.replicas = 2;
    shape.stages /= 2;
  }
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  if (schedule.shape.shards() > 0) {
    throw UsageError(
        fmt::format("CSV: {} divides the vocabulary, for whose passes PyTorch's "
                    "dialect has no word",
                    schedule.name));
  }
  std::string text;
  if (schedule.shape.segments > 1) text = fmt::format("{}{}\n", kSegments, schedule.shape.segments);
  for (const Rank rank : schedule.order.ids()) {
    const auto& order = schedule.order[rank];
    const auto* pairs = schedule.overlapped.has(rank) ? &schedule.overlapped[rank] : nullptr;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) text += ',';
      const bool pair =
          pairs != nullptr && i + 1 < order.size() &&
          std::binary_search(pairs->begin(), pairs->end(), static_cast<std::int32_t>(i));
      if (pair) {
        text += fmt::format("({};{})OVERLAP_F_B", to_string(order[i]), to_string(order[i + 1]));
        ++i;
      } else {
        text += to_string(order[i]);
      }
    }
    // An empty line would be no rank.
    text += order.empty() ? ",\n" : "\n";
  }
  return text;
}

Schedule parse_schedule_csv(const std::string& text, const std::string& file) {
  std::size_t rows = 0;
  std::int32_t segments = 1;
  const std::vector<Cell> cells = read_cells(text, file, rows, segments);
  if (cells.empty()) throw InputError(file, "", "expected one row of actions a rank, found none");
  // All letters before any kind: what B means is the whole file's.
  Letters seen;
  for (const Cell& cell : cells) {
    if (const auto raw = parse_raw(cell.text)) {
      seen.has_bw |= raw->letters == "BW";
      seen.has_i |= raw->letters == "I";
      seen.has_w |= raw->letters == "W";
      seen.has_b |= raw->letters == "B";
    } else if (!is_message(cell.text)) {
      refuse(file, cell, "expected an action like 2F0, 1I2, 3B1, 0W4 or 0SEND_F3");
    }
  }
  const bool old = old_dialect(seen, file);
  Schedule schedule;
  schedule.name = file;
  schedule.order.resize(rows);
  schedule.overlapped.resize(rows);
  for (const Cell& cell : cells) {
    const auto raw = parse_raw(cell.text);
    // Messages were checked, and are dropped: lowering makes its own.
    if (!raw) continue;
    if (raw->stage.value >= kMostStages || raw->microbatch.value >= kMostMicrobatches) {
      refuse(file, cell,
             fmt::format("stages end at {}, micro-batches at {}", kMostStages, kMostMicrobatches));
    }
    auto& order = schedule.order[cell.row];
    if (cell.overlapped_with_next) {
      schedule.overlapped[cell.row].push_back(static_cast<std::int32_t>(order.size()));
    }
    order.push_back({raw->stage, kind_of(raw->letters, old), raw->microbatch});
  }
  const bool pairs =
      std::ranges::any_of(schedule.overlapped, [](const auto& row) { return !row.empty(); });
  // Without a pair there is no list, as generators have it.
  if (!pairs) schedule.overlapped.clear();
  place_stages(schedule, file);
  ScheduleShape& shape = schedule.shape;
  if (shape.microbatches % segments != 0) {
    throw InputError(file, "row 1",
                     fmt::format("{} slices do not make whole micro-batches of {}",
                                 shape.microbatches, segments));
  }
  shape.segments = segments;
  shape.microbatches /= segments;
  return schedule;
}

}  // namespace weir

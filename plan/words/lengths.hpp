// How long a job's sequences are, where they are not all as long as its samples' rows: a
// distribution by quantiles, and how sequences lie in rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/words/names.hpp"

namespace weir {

// Rows are full of whole sequences (packed), or of a stream of them that is cut where rows end
// (cut), and no sequence attends to another of its row; or a row has one sequence, and a
// micro-batch's rows are as long as its longest one (longest).
enum class RowsOf : std::uint8_t { packed, cut, longest };
inline constexpr Names<RowsOf, 3> kRowsOf{
    {{RowsOf::packed, "packed"}, {RowsOf::cut, "cut"}, {RowsOf::longest, "longest"}}};
[[nodiscard]] std::string_view to_string(RowsOf rows);
[[nodiscard]] std::optional<RowsOf> parse_rows_of(std::string_view text);

inline constexpr std::size_t kMostQuantiles = 1001;

struct SequenceLengths {
  // Evenly spaced from the shortest length to the longest, ascending, a line between two; one: all
  // are as long. Empty: every sequence is a row.
  std::vector<int> quantiles;
  RowsOf rows = RowsOf::packed;
  // Tokens of a sequence that a device takes at most: each sequence is computed alone, by as many
  // of a stage's cp x dp devices as that asks for, a power of two (dynamic context parallelism). 0:
  // all by cp.
  int dynamic_cp = 0;
  [[nodiscard]] bool known() const { return !quantiles.empty(); }
  bool operator==(const SequenceLengths&) const = default;
};

// Of lengths as they are counted, in any order, none of them below 1: at most 101 quantiles.
// Precondition: there is one.
[[nodiscard]] std::vector<int> quantiles_of(std::vector<int> lengths);

// Of the distribution on (0, most] that says least beside its mean, an exponential one that is cut
// off there (Jaynes, Physical Review 106(4), 1957): 101 quantiles. nullopt: no such mean.
[[nodiscard]] std::optional<std::vector<int>> quantiles_of(double mean, int most);

// Of dynamic context parallelism, the devices of a sequence of so many tokens: the least power of
// two of which none has more than `most`. Precondition: most is above 0.
[[nodiscard]] int devices_of_sequence(std::int64_t tokens, std::int64_t most);

// "lengths 12 to 4096, packed"; "..., a device up to 1024 tokens" where devices follow lengths.
[[nodiscard]] std::string to_text(const SequenceLengths& lengths);

}  // namespace weir

// Where a request's schedule comes from: a generator's name, a CSV file, or a program of the user's
// own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "tools/app/shared/source.hpp"

namespace weir {

struct ScheduleSource {
  std::string name;           // "1f1b", "mine.csv", or "exec:COMMAND"
  int ranks = 4;              // K
  std::optional<int> chunks;  // v; the schedule's own default where it was not given
  int microbatches = 8;       // M
  std::optional<int> slices;  // of a sequence; likewise
  bool allow_reordered = false;
};

inline constexpr const char* kSlicesHelp =
    "Slices of a sequence (default: the schedule's own; seq1f1b has them)";

// A judged schedule. COMMAND is run by the shell as "COMMAND K M v" and prints a CSV on its stdout;
// files and programs bring their own K, M, v and slices, which for a program must be the K, M
// and v asked for.
// Throws UsageError (a name or sizes that cannot be), InputError (a file or output that is no
// schedule, a program that failed).
[[nodiscard]] Schedule obtain_schedule(const ScheduleSource& source);

// The same for the CSV that a program or a function made when asked for the source's K, M and v;
// `maker` is its name in messages.
[[nodiscard]] Schedule schedule_made_for(const ScheduleSource& source, const std::string& csv,
                                         const std::string& maker);

// The same for what a request chose; `shape`'s own name is not looked at.
[[nodiscard]] Schedule obtain_schedule(const app::ScheduleChoice& choice, ScheduleSource shape);
[[nodiscard]] std::string name_of(const app::ScheduleChoice& choice);

// Whether a request has one: no name is none.
[[nodiscard]] bool is_given(const app::ScheduleChoice& choice);

// Whether it brings sizes of its own: a CSV file, or a schedule in memory.
[[nodiscard]] bool has_own_sizes(const app::ScheduleChoice& choice);

// The one v that the chosen schedule can have, where it is a published one with one only.
[[nodiscard]] std::optional<int> only_chunks(const app::ScheduleChoice& choice);

// The published ones, those that divide the vocabulary last.
[[nodiscard]] std::vector<std::string> generator_names();

[[nodiscard]] inline bool is_program(const std::string& name) { return name.starts_with("exec:"); }

}  // namespace weir

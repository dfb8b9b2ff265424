// How far other work disturbed a measurement: what the kernel counted while it ran, and the spread
// of what was repeated. Plain data; `doubt` is the only judge.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "plan/words/units.hpp"

namespace weir {

struct Trace;

// Less says nothing: the kernel's ticks are 10 ms, and a step of microseconds scatters anywhere.
inline constexpr Seconds kLeastWatched{1};

struct Disturbance {
  Seconds watched{0};            // of the wall clock
  Seconds worked{0};             // that the process's threads computed, all together
  std::optional<double> stolen;  // share of its cores' time that a hypervisor gave to others
  double preemptions_per_s = 0;  // of `worked`: a thread lost its core and wanted to run
  std::optional<double> spread;  // spread_over_fastest_half of what was repeated
  bool operator==(const Disturbance&) const = default;
};

// Each is what is worse of the two.
[[nodiscard]] Disturbance worse_of(const Disturbance& a, const Disturbance& b);

// Of a measured trace: what its run has written into it (put_disturbance), and the spread of its
// steps, none below three, of which no fastest half tells anything. Throws InputError where the
// trace's info is nothing that was written so.
[[nodiscard]] Disturbance disturbance_of(const Trace& trace);
void put_disturbance(Trace& trace, const Disturbance& disturbance);

// What is wrong, as "3.1% of the cores' time was stolen, ..."; empty for an undisturbed machine:
// - stolen above 2 %, to which a profile's repetitions agree before it stops repeating them;
// - above 20 preemptions a second. Two processes that share a core lose it some 80 to 300 times (a
//   slice of Linux's scheduler is 3 to 12 ms); on a quiet machine short work of the kernel takes it
//   some times;
// - spread above 10 %, from where pyperf calls a benchmark unstable: less hardly shows in medians.
// Less than a second says nothing: the kernel's ticks are 10 ms, and a step of microseconds
// scatters on any machine.
[[nodiscard]] std::string doubt(const Disturbance& disturbance);

// The object `disturbance` of docs/formats.md.
[[nodiscard]] nlohmann::ordered_json to_json(const Disturbance& disturbance);
// Throws InputError, which names `file` and `key`.
[[nodiscard]] Disturbance parse_disturbance(const nlohmann::ordered_json& json,
                                            const std::string& file, const std::string& key);

}  // namespace weir

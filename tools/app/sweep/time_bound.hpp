// One bound on the time of a sweep, what explains it and its report: what --budget says, from when
// it is made, behind the plan in use and the machine, which are loaded before. What the rows run is
// not within it. Each part of the work ends at a share of it, and has what earlier parts left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "plan/words/units.hpp"

namespace weir::app {

class TimeBound {
 public:
  // In the order in which they are done.
  enum class Part : std::uint8_t {
    search,
    first_changes,
    what_if,
    rejected,
    towards,
    outside,
    report
  };
  // What was asked for beside the search.
  struct Beside {
    bool baseline = false, explain = false, report = false;
  };

  // Of nothing that ends.
  TimeBound() = default;
  // "30s"; empty: nothing ends. Throws UsageError for another text.
  TimeBound(const std::string& budget, const Beside& beside);

  // From now until that part is to end, at least 0; nullopt: it has no end.
  [[nodiscard]] std::optional<Seconds> left(Part part) const;
  [[nodiscard]] bool over(Part part) const;

 private:
  static constexpr std::size_t kParts = 7;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<Seconds> budget_;
  std::array<double, kParts> ends_{};  // as shares of the budget
};

}  // namespace weir::app

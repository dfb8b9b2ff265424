// Idle accounting (docs/design.md 8 and 9), the same for predicted and measured traces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

// A rank's idle time by cause; the parts sum to step time - busy exactly.
struct IdleTime {
  Nanoseconds fill{0};
  Nanoseconds drain{0};
  Nanoseconds imbalance{0};
  Nanoseconds communication{0};
  Nanoseconds host{0};
  Nanoseconds optimizer{0};
  [[nodiscard]] Nanoseconds total() const {
    return fill + drain + imbalance + communication + host + optimizer;
  }
  bool operator==(const IdleTime&) const = default;
};

// The causes by the words of idle_s.
struct IdleCause {
  const char* name;
  Nanoseconds IdleTime::*time;
};
inline constexpr std::array kIdleCauses{IdleCause{"fill", &IdleTime::fill},
                                        IdleCause{"drain", &IdleTime::drain},
                                        IdleCause{"imbalance", &IdleTime::imbalance},
                                        IdleCause{"communication", &IdleTime::communication},
                                        IdleCause{"host", &IdleTime::host},
                                        IdleCause{"optimizer", &IdleTime::optimizer}};

struct RankMetrics {
  Nanoseconds busy{0};           // compute lane, optimizer included
  Nanoseconds useful{0};         // busy without re-materialisation and optimizer
  Nanoseconds rematerialise{0};  // R, and what B and I rebuild
  IdleTime idle;
  Nanoseconds reduction{0};  // of idle.communication, the wait for gradients to be summed
};

struct StepMetrics {
  Nanoseconds step_time{0};  // makespan, optimizer and barrier included
  Nanoseconds span{0};  // max over ranks: last compute end - first compute start (no optimizer)
  Seconds ideal{0};     // mean over ranks of F + I + W + B + R time
  double bubble_fraction = 0;       // 1 - mean busy / step time
  double bubble_fraction_span = 0;  // 1 - ideal / span
  std::vector<RankMetrics> ranks;
};

// Precondition: `trace` is of this program and holds every operation of step `step`.
[[nodiscard]] StepMetrics step_metrics(const Program& program, const Trace& trace,
                                       std::int32_t step = 0);

}  // namespace weir

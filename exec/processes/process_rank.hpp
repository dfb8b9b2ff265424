// One rank as its process runs it, step by step: walked, each action finished before the next
// begins (exec/processes/interpreted_rank), or launched as a whole where the backend and the
// transport only launch (exec/processes/stream_rank).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "exec/rank/transport.hpp"

namespace weir {

class ProcessRank {
 public:
  struct Step {
    std::int64_t ended_ns = 0;  // by the run's clock
    std::optional<std::int64_t>
        launching_ns;  // until the host had launched everything; none where that is running
  };

  virtual ~ProcessRank() = default;
  virtual void begin_step(std::uint32_t step,
                          StepClock& clock) = 0;  // all that is not of the step itself
  // The rank's actions; their starts and ends go to the clock given before.
  [[nodiscard]] virtual Step run_step(std::uint32_t step) = 0;
  virtual void end_step() = 0;  // waits until all that was sent has left
  // GradientExchange::norm.
  [[nodiscard]] virtual std::optional<double> gradient_norm() const { return std::nullopt; }
  [[nodiscard]] virtual std::int64_t blocks()
      const = 0;  // taken from the backend so far, beside the arena's
};

}  // namespace weir

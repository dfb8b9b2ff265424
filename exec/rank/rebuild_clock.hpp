// How long actions spent on rebuilding layers within them (recompute full): on a backend that works
// at once by the host's clock, on one with a stream by events around each layer's, which are made
// once and recorded anew in every step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/rank/transport.hpp"
#include "plan/program/program.hpp"

namespace weir {

class RebuildClock {
 public:
  // The backend outlives it.
  explicit RebuildClock(Backend& backend) : backend_(backend) {}

  // From here on what is rebuilt is part of this action. Once a step for each.
  void begin_action(OperationId id);
  // Around the rebuilding of one layer.
  void begin();
  void end();
  // Of the step that is done: adds nothing, writes the entries of the actions that rebuilt.
  void read(StepClock& clock) const;

 private:
  struct OfAction {
    std::int64_t host_ns = 0;
    std::vector<std::pair<Event, Event>> layers;  // in the order in which they are rebuilt
    std::size_t used = 0;                         // of them, in this step
  };

  Backend& backend_;
  std::map<OperationId, OfAction> actions_;
  OfAction* now_ = nullptr;
  std::int64_t began_ns_ = 0;
};

}  // namespace weir

// Walks one rank's compute lane, one action after the other, each finished before the next begins,
// and moves the messages that its actions need and make. What an action does is a `ActionHandler`:
// real training on a backend, or timed waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/rank/activity.hpp"
#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/messages.hpp"
#include "exec/rank/transport.hpp"
#include "plan/program/program.hpp"

namespace weir {

class ActionHandler {
 public:
  virtual ~ActionHandler() = default;
  virtual void begin_step(std::uint32_t step) = 0;
  // Launches one compute action; `incoming` are the messages it awaited, if any; returns those to
  // send on, if any.
  [[nodiscard]] virtual Messages act(OperationId id, const Action& action, Messages incoming) = 0;
  virtual void finish() = 0;    // returns when all that was launched is done
  virtual void end_step() = 0;  // all is done: what the step computed for the host can be read
  // What was launched since the step began will never run, and the step is launched again.
  virtual void forget_step() {}
  // Afterwards: how long its actions spent on rebuilding layers.
  virtual void read_rebuilds(StepClock&) const {}
};

// Which messages belong to an operation of the compute lane; -1: none.
struct MessageRoute {
  std::int32_t receive_edge = -1, receive_index = -1;
  std::int32_t send_edge = -1, send_index = -1;
  // The value comes from an operation of this rank (two stages, one rank).
  OperationId local_producer = kNoOperation;
  bool feeds_local = false;  // the value goes to an operation of this rank
  // Skips that go directly, the nearest stage's first.
  struct Skip {
    std::int32_t edge = -1, index = -1;
    std::int32_t distance = 0;  // of its stages
  };
  std::vector<Skip> receive_skips{}, send_skips{};
};

// MessageRoute of every operation; index = OperationId.
[[nodiscard]] std::vector<MessageRoute> route_messages(const Program& program);

// What the ranks of a run share while they walk a step.
struct StepContext {
  const Program& program;
  const std::vector<MessageRoute>& routes;
  Transport& transport;
  GradientExchange& gradients;
  Transport::Now now;
  StepClock& clock;
  Activity& activity;
};

// Runs the compute lane of `rank` for one step and writes its starts and ends to the clock. Throws
// RunFailed naming rank, step and action where an action throws, and Transport::Stopped.
void interpret(StepContext& context, Rank rank, ActionHandler& handler, std::uint32_t step);

}  // namespace weir

// Where the copies of a weight meet, at the end of a step: the optimizer of a stage that shares
// weights (ties, replicas) waits until the gradients of every copy are whole and there. Between
// threads they are read in place (gradient_gate), between processes they are sent
// (process_gradients).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "exec/rank/transport.hpp"
#include "plan/program/program.hpp"

namespace weir {

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  // Called after each operation of a compute lane: the stage's last B or W makes its gradients
  // whole.
  virtual void ended(OperationId id, std::uint32_t step) = 0;
  // Called within a stage's last B or W where the plan overlaps the reduction with it: these
  // parameters' gradients are whole behind what is launched.
  virtual void whole(Stage, int first_parameter, int count) {
    static_cast<void>(first_parameter);
    static_cast<void>(count);
  }
  // Waits for all that `optimizer` waits for, and writes its stage's REDUCE_GRAD into the clock.
  // Throws Transport::Stopped.
  virtual void await(OperationId optimizer, std::uint32_t step, StepClock& clock) = 0;
  // After `await`: the gradients to sum for a parameter (its index among the stage's), in layer
  // order and then by stage; empty for a use that is updated with another one of this stage. Under
  // ZeRO-1 they begin where the replica's slice does (exec/training/replica_share).
  [[nodiscard]] virtual std::vector<Tensor> copies(Stage stage, std::size_t parameter) = 0;
  // After `await`: what all gradients are multiplied with, 1 or below where they are clipped.
  [[nodiscard]] virtual double factor() const = 0;
  // After the step's optimizers: the norm of all gradients before it; absent where nothing is
  // clipped.
  [[nodiscard]] virtual std::optional<double> norm() const { return std::nullopt; }
  // After a stage's update: its weights are whole when this returns, those of them too that other
  // replicas have updated.
  virtual void updated(Stage) {}
  virtual void end_step() = 0;  // gradients may be overwritten after it
  virtual void stop() = 0;      // a rank failed: wakes all that wait
};

}  // namespace weir

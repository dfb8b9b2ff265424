// A rank of a process of its own that finishes each action before the next begins; messages go by a
// transport that waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exec/processes/process_gradients.hpp"
#include "exec/processes/process_rank.hpp"
#include "exec/processes/processes.hpp"
#include "exec/rank/interpreter.hpp"

namespace weir {

class InterpretedRank : public ProcessRank {
 public:
  // `make_handler` makes what the rank does with its actions; all else as for ProcessGradients.
  using MakeHandler = std::function<std::unique_ptr<ActionHandler>(GradientExchange&)>;
  InterpretedRank(const std::vector<MessageRoute>& routes,
                  std::unique_ptr<ProcessTransport> transport, ProcessGradients::Setup setup,
                  Processes& processes, Activity& activity, const MakeHandler& make_handler);

  void begin_step(std::uint32_t step, StepClock& clock) override;
  [[nodiscard]] Step run_step(std::uint32_t step) override;
  void end_step() override;
  [[nodiscard]] std::optional<double> gradient_norm() const override { return gradients_.norm(); }
  [[nodiscard]] std::int64_t blocks() const override { return transport_->blocks(); }

 private:
  const Program& program_;
  const std::vector<MessageRoute>& routes_;
  Rank rank_;
  Transport::Now now_;
  std::unique_ptr<ProcessTransport> transport_;
  ProcessGradients gradients_;
  std::unique_ptr<ActionHandler> handler_;
  StepClock* clock_ = nullptr;
  Activity& activity_;
};

}  // namespace weir

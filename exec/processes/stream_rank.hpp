// A rank of a process of its own whose steps are launched as a whole (exec/streams/step_launcher);
// messages and gradients go by a transport that only launches, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/processes/process_rank.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/streams/step_launcher.hpp"
#include "exec/streams/stream_gradients.hpp"

namespace weir {

class StreamRank : public ProcessRank {
 public:
  // `rank`: of this process; its work is made by `make_handler`. `wait_until` as for
  // OtherProcesses.
  using MakeHandler = std::function<std::unique_ptr<ActionHandler>(GradientExchange&)>;
  StreamRank(const std::vector<MessageRoute>& routes, std::unique_ptr<StreamTransport> transport,
             const StreamGradients::Setup& setup, const GradientNorm& norm,
             const std::vector<std::int64_t>& message_bytes, const MakeHandler& make_handler,
             std::function<void(const std::function<bool()>&)> wait_until, StepLauncher::Now now);

  void begin_step(std::uint32_t step, StepClock& clock) override;
  [[nodiscard]] Step run_step(std::uint32_t step) override;
  void end_step() override { gradients_.end_step(); }
  [[nodiscard]] std::optional<double> gradient_norm() const override { return found_; }
  [[nodiscard]] std::int64_t blocks() const override { return 0; }

 private:
  std::unique_ptr<StreamTransport> transport_;
  StreamGradients gradients_;
  std::optional<StreamNorm> norm_;  // where gradients are clipped
  std::optional<double> found_;     // in the last step
  std::unique_ptr<ActionHandler> handler_;
  StepLauncher launcher_;
  StepClock* clock_ = nullptr;
};

}  // namespace weir

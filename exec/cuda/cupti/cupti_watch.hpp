// Records kernels by CUPTI's activity interface. Every CUDA call that the launching thread makes
// within an action bears the action's number (an external id), and a kernel bears the number of the
// call that launched it. A kernel of a replayed graph bears the number of the graph's launch
// instead, whichever action it was captured in, so that graphs cannot be recorded like this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "exec/cuda/cupti/cupti_api.hpp"
#include "exec/cuda/cupti/cupti_records.hpp"
#include "exec/device/kernel_watch.hpp"

namespace weir {

class CuptiWatch : public KernelWatch {
 public:
  // Throws RunFailed where this process has one already: CUPTI has one set of buffers.
  explicit CuptiWatch(const CuptiApi& api);
  CuptiWatch(const CuptiWatch&) = delete;
  CuptiWatch& operator=(const CuptiWatch&) = delete;
  ~CuptiWatch() override;

  void begin_step(std::int32_t step) override;
  void begin_action(std::string_view name) override;
  void end_action() override;
  [[nodiscard]] KernelRecords stop() override;

 private:
  void start();
  void disable() noexcept;

  CuptiApi api_;
  std::int32_t step_ = 0;
  bool recording_ = false;
  bool in_action_ = false;
  std::vector<LaunchingAction> actions_;  // by external id - 1
};

}  // namespace weir

// What CUPTI writes into its buffers, read: kernels, copies and fills, each with the number of the
// call that launched it, and which calls were made in which action.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/cuda/cupti/cupti_api.hpp"
#include "traces/kernels.hpp"

namespace weir {

// External ids are given on from 1 in the order of the launching actions.
struct LaunchingAction {
  std::int32_t step = 0;
  std::string name;
};

class CuptiRecords {
 public:
  // Precondition: CUPTI filled `valid` bytes of the buffer. Throws RunFailed when CUPTI cannot read
  // it.
  void read(const CuptiApi& api, std::uint8_t* buffer, std::size_t valid);

  // `actions`: by external id - 1. Names are short (traces/kernel_name). `dropped` counts
  // buffers that could not be read to their end.
  [[nodiscard]] KernelRecords resolve(const std::vector<LaunchingAction>& actions) const;

 private:
  struct Work {
    std::string name;
    DeviceWork work = DeviceWork::kernel;
    std::uint32_t call = 0;          // correlation id
    std::uint32_t runtime_call = 0;  // copies have one of their own for the runtime's call; 0: none
    std::uint64_t start_ns = 0, end_ns = 0;
  };
  void add(const CUpti_Activity& record);
  [[nodiscard]] std::uint64_t action_of(const Work& work) const;  // 0: of none

  std::vector<Work> work_;
  std::int64_t broken_off_ = 0;
  std::unordered_map<std::uint32_t, std::uint64_t>
      action_of_call_;  // looked up, never walked through
};

}  // namespace weir

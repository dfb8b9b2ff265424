// A step of a rank with nothing computed: the walk of exec/rank/interpreter with the stages of
// exec/rank/stage, on memory that is only counted. What a step would take is known before it runs,
// to the tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/device/arena.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/tensor_list.hpp"
#include "plan/program/program.hpp"
#include "plan/words/units.hpp"

namespace weir {

// So many bytes of memory that is not there: blocks have addresses and nothing behind them.
class CountedBlocks : public BlockSource {
 public:
  explicit CountedBlocks(Bytes there) : left_(there.count()) {}
  [[nodiscard]] void* allocate(std::int64_t bytes) override;  // throws NoMemory
  void release(void* block, std::int64_t bytes) noexcept override;

 private:
  std::int64_t left_;
  std::uintptr_t next_ = kTensorAlignment;  // the address of the next block
};

// Takes from `blocks` what the rank's weights, gradients, optimizer state and activations take in a
// training step; the library's scratch memory is not among them. Messages come as tensors of the
// rank's own. Throws RunFailed with rank and tensor, and of a step's the action, for which there is
// no memory.
void rehearse(const ResolvedPlan& loaded, Rank rank, CountedBlocks& blocks);

}  // namespace weir

// Times launches on a rank's stream while it is prepared, in memory that goes back with the timer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>

#include "exec/cuda/driver/event_handle.hpp"
#include "exec/cuda/driver/memory_pool.hpp"
#include "plan/words/units.hpp"

namespace weir::cuda {

class LaunchTimer {
 public:
  LaunchTimer(int device, cudaStream_t stream);
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;
  ~LaunchTimer();

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  // Device memory of at least so many bytes, the same for the same place as long as that is enough;
  // it holds small numbers in every format, scratch memory anything. Throws std::bad_alloc.
  enum class Place : std::uint8_t { a, b, c, bias, aux, scratch };
  [[nodiscard]] void* memory(Place place, std::int64_t bytes);
  // The shortest of some runs, behind one that warms up: what disturbs only makes longer.
  [[nodiscard]] Seconds time(const std::function<void()>& launch);

 private:
  struct Block {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  cudaStream_t stream_;
  MemoryPool pool_;
  std::map<Place, Block> blocks_;
  EventHandle begin_, end_;
};

}  // namespace weir::cuda

// The devices that divide a layer's width among them (Megatron: Shoeybi et al. 2019), as a kernel
// sees them: what each has made a part of, they add up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "exec/device/arena.hpp"

namespace weir {

// A run of a micro-batch's rows.
struct RowRun {
  std::int64_t first = 0, count = 0;
};

// Which of them a device is.
struct DevicePlace {
  int place = 0, places = 1;
  // They divide the rows of what tensor parallelism leaves whole too (Korthikanti et al. 2022,
  // section 4.2): place 0 has the first run of them.
  bool divides_rows = false;
  // Of a micro-batch's rows, those that the device has of such a tensor.
  [[nodiscard]] RowRun own_rows(std::int64_t rows) const {
    if (!divides_rows) return {0, rows};
    return {place * (rows / places), rows / places};
  }
};

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;
  [[nodiscard]] virtual int place() const = 0;  // this device's, from 0
  [[nodiscard]] virtual int count() const = 0;

  // All-reduces: called by all devices with as many values, in the same order of calls. Each has
  // the result in its place when it returns, to the same bits: terms are added in the order of
  // places.
  virtual void sum(std::span<float> values) = 0;
  virtual void maximum(std::span<float> values) = 0;

  // Of values in as many equal runs as there are devices, in the order of places (a precondition of
  // both). A reduce-scatter: the sum of this device's run, its terms in the order of places, is put
  // into `own`. An all-gather: every device's `own` becomes its run of `values`.
  virtual void sum_own(std::span<const float> values, std::span<float> own) = 0;
  virtual void gather(std::span<const float> own, std::span<float> values) = 0;
};

// The same where numbers are not in the host's memory, or launches do not wait: messages between
// the devices, of which each makes the sums by kernels of its own (exec/cuda/group).
class TensorLinks {
 public:
  struct Part {
    int place = 0;  // of the device that it goes to, or comes from
    Tensor tensor;
  };
  virtual ~TensorLinks() = default;
  // Called by all devices in the same order of calls. Behind all that this one's backend has
  // launched on its stream, and before all that it launches next.
  virtual void exchange(std::span<const Part> sends, std::span<const Part> receives) = 0;
};

}  // namespace weir

// The devices that divide the layers with this one: sums of what each has made a part of, in the
// order of places, and gathers of what each has some rows of. As a ring would, each device makes
// one slice of a sum of the others' messages, by a kernel, and sends it round; so the order of
// additions is ours and the bits are the same everywhere. Numbers travel as they are stored and are
// added in fp32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/cuda/kernels/ordered_sums.hpp"
#include "exec/device/tensor_group.hpp"

namespace weir::cuda {

struct Group {
  int place = 0, places = 1;
  bool divides_rows = false;     // sequence parallelism, as DevicePlace has it
  TensorLinks* links = nullptr;  // there before the first pass
  void* room = nullptr;          // room_bytes of the longest sum
  cudaStream_t stream = nullptr;

  [[nodiscard]] bool divided() const { return places > 1; }
  [[nodiscard]] DevicePlace at() const { return {place, places, divides_rows}; }
  [[nodiscard]] RowRun own_rows(std::int64_t rows) const { return at().own_rows(rows); }
  // For the other devices' parts of this one's slice of a sum of `count` numbers.
  [[nodiscard]] std::int64_t room_bytes(std::int64_t count, std::int64_t element_bytes) const;

  // All-reduces, in place.
  template <class E>
  void sum(E* values, std::int64_t count) const;
  void largest(float* values, std::int64_t count) const;

  // Each device of the group has made a part of these numbers of all rows; alone, they are whole.
  // Their sum stands in `own`: of the device's rows, or where these are not divided in the place of
  // `values`, which `own` is then.
  template <class E>
  void sum_parts(E* values, std::int64_t count, E* own) const;
  // All rows, `count` numbers, of a tensor of which the device has `own`: in `to`, which may be
  // null where rows are not divided and `own` has all.
  template <class E>
  [[nodiscard]] const E* all_rows(const E* own, std::int64_t count, E* to) const;

 private:
  // This device's slice of all parts of `values`, combined, in `to`; and of `values` every slice
  // what its device has there.
  template <class E>
  void combine_slice(Together how, E* values, std::int64_t count, E* to) const;
  template <class E>
  void gather_slices(const E* own, E* values, std::int64_t count) const;
};

}  // namespace weir::cuda

// What a device's passes work with beside the tensors of their layer: matrix products,
// convolutions, and the tables of rotary positions, in memory that is taken from the arena for the
// whole run. Products and convolutions, which never run at once, share theirs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exec/cpu/kernels/convolution.hpp"
#include "exec/cpu/kernels/matmul.hpp"
#include "exec/device/tensor_group.hpp"
#include "exec/training/rotary_tables.hpp"
#include "plan/model/tensor_list.hpp"

namespace weir::cpu {

struct Workbench {
  Matmul matmul;
  Convolutions convolutions;
  RotaryTables rotary;
  TensorGroup* group = nullptr;  // the devices that divide the layers with this one; null: none do

  bool divides_rows = false;  // sequence parallelism, as DevicePlace has it

  [[nodiscard]] DevicePlace at() const {
    if (group == nullptr) return {};
    return {group->place(), group->count(), divides_rows};
  }
  [[nodiscard]] RowRun own_rows(std::int64_t rows) const { return at().own_rows(rows); }
  // Each device of the group has made a part of these numbers of all rows; alone, they are whole.
  // Their sum stands in `own`: of the device's rows, or where these are not divided in the place of
  // `values`, which `own` is then.
  void sum_parts(float* values, std::int64_t count, float* own) const {
    const auto numbers = static_cast<std::size_t>(count);
    if (divides_rows) return group->sum_own({values, numbers}, {own, numbers / places()});
    if (group != nullptr) group->sum({values, numbers});
  }
  // All rows, `count` numbers, of a tensor of which the device has `own`: in `room`, which may be
  // null where rows are not divided and `own` has all.
  [[nodiscard]] const float* all_rows(const float* own, std::int64_t count, float* room) const {
    if (!divides_rows) return own;
    const auto numbers = static_cast<std::size_t>(count);
    group->gather({own, numbers / places()}, {room, numbers});
    return room;
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    const std::int64_t tables = rotary.bytes();
    return tables == 0 ? library_bytes() : aligned_bytes(library_bytes()) + tables;
  }
  void use_scratch(std::byte* scratch) {
    matmul.use_scratch(scratch);
    convolutions.use_scratch(scratch);
    if (rotary.bytes() == 0) return;
    rotary.use(reinterpret_cast<float*>(scratch + aligned_bytes(library_bytes())),
               [](float* to, const std::vector<float>& table) {
                 std::copy(table.begin(), table.end(), to);
               });
  }

 private:
  [[nodiscard]] std::size_t places() const { return static_cast<std::size_t>(group->count()); }
  [[nodiscard]] std::int64_t library_bytes() const {
    return std::max(matmul.scratch_bytes(), convolutions.scratch_bytes());
  }
};

}  // namespace weir::cpu

// The operands of a cell's pass, found by the numbers of its values and operations
// (plan/model/cell_layout), as backends of every format look for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/device/backend.hpp"
#include "plan/model/cell_layout.hpp"

namespace weir {

// E: the format of values, their gradients and weights.
template <class E>
class CellOperands {
 public:
  CellOperands(const CellShape& cell, const LayerCall& call)
      : call_(call), layout_(cell_layout(cell)) {}

  [[nodiscard]] E* value(int value) const { return at(layout_.values[index(value)]); }
  // Null where nobody asks for it: of images.
  [[nodiscard]] E* gradient(int value) const {
    const CellPlace& place = layout_.gradients[index(value)];
    if (place.where == CellPlace::Where::input) return elements(call_.input_gradient);
    if (place.where == CellPlace::Where::output) return elements(call_.output_gradient);
    return at(place);
  }
  [[nodiscard]] E* summand() const { return at(layout_.summand); }
  // What F saved for operation i, and what I carries for it.
  [[nodiscard]] const Tensor& saved(std::size_t i) const {
    return call_.saved[index(layout_.saved[i])];
  }
  [[nodiscard]] std::uint8_t* bytes(std::size_t i) const {
    return reinterpret_cast<std::uint8_t*>(saved(i).data);
  }
  [[nodiscard]] float* carried(std::size_t i) const {
    return call_.carried[index(layout_.carried[i])].floats();
  }
  [[nodiscard]] const E* weight(std::size_t i, int which) const {
    return elements(call_.weights[index(layout_.parameter[i] + which)]);
  }
  [[nodiscard]] float* weight_gradient(std::size_t i, int which) const {
    return call_.gradients[index(layout_.parameter[i] + which)].floats();
  }
  // Of the micro-batch.
  [[nodiscard]] std::int64_t numbers(const FeatureMap& map) const {
    return call_.batch * map.numbers();
  }
  [[nodiscard]] std::int64_t places(const FeatureMap& map) const {
    return call_.batch * map.places();
  }

 private:
  using Where = CellPlace::Where;
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }
  static E* elements(const Tensor& tensor) { return reinterpret_cast<E*>(tensor.data); }
  [[nodiscard]] E* at(const CellPlace& place) const {
    switch (place.where) {
      case Where::input:
        return elements(call_.input);
      case Where::output:
        return elements(call_.output);
      case Where::saved:
        return elements(call_.saved[index(place.index)]);
      case Where::carried:
        return elements(call_.carried[index(place.index)]);
      case Where::workspace:
        return elements(call_.workspace) + place.offset * call_.batch;
      case Where::nowhere:
        break;
    }
    return nullptr;
  }

  const LayerCall& call_;
  CellLayout layout_;
};

// Of a concatenation's input number k, the channels in front of it; of a packing's the numbers.
[[nodiscard]] inline std::int64_t channels_before(const CellShape& cell, const CellOperation& o,
                                                  std::size_t k) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < k; ++i) before += cell.map(o.inputs[i]).channels;
  return before;
}
[[nodiscard]] inline std::int64_t numbers_before(const CellShape& cell, const CellOperation& o,
                                                 std::size_t k) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < k; ++i) before += cell.map(o.inputs[i]).numbers();
  return before;
}

}  // namespace weir

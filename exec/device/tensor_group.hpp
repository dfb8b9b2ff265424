// The devices that divide a layer's width among them (Megatron: Shoeybi et al. 2019), as a kernel
// sees them: what each has made a part of, they add up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace weir {

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
};

}  // namespace weir

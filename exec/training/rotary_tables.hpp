// Rotary positions as every backend computes them: the cosines and sines of every position, made on
// the host. Number i of a head and number i + d / 2 are a pair, as Llama's published weights lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "plan/model/layer_shape.hpp"

namespace weir {

// What each pair of a head turns by a token (plan/model/layer_shape), d / 2 of them. In fp32, and
// the angles of the tables too: the published weights were trained with angles rounded so.
void rotary_frequencies(const RotaryAngles& angles, std::int64_t d, std::span<float> frequencies);

// The tables of a device's layers, each of s x d: of a position the d / 2 cosines, then the sines.
class RotaryTables {
 public:
  // Brings a table to its place in the device's memory; what it is given ends with the call.
  using Put = std::function<void(float* to, const std::vector<float>& table)>;

  void prepare(const RotaryAngles& angles, std::int64_t d, std::int64_t s);
  [[nodiscard]] std::int64_t bytes() const;
  void use(float* memory, const Put& put);  // of so many bytes; fills it
  // Precondition: prepared, and in use.
  [[nodiscard]] const float* table(const RotaryAngles& angles, std::int64_t d,
                                   std::int64_t s) const;

 private:
  using Key = std::tuple<RotaryAngles, std::int64_t, std::int64_t>;
  std::map<Key, const float*> tables_;
};

}  // namespace weir

// Rotary positions on one core: the cosines and sines of every position, and the turn of heads by
// them. Number i of a head and number i + d / 2 are a pair, as Llama's published weights lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "plan/model/layer_shape.hpp"

namespace weir::cpu {

// What each pair of a head turns by a token (plan/model/layer_shape), d / 2 of them. In fp32, and
// the angles of the tables too: the published weights were trained with angles rounded so.
void rotary_frequencies(const RotaryAngles& angles, std::int64_t d, std::span<float> frequencies);

// The tables of a device's layers, each of s x d: of a position the d / 2 cosines, then the sines.
class RotaryTables {
 public:
  void prepare(const RotaryAngles& angles, std::int64_t d, std::int64_t s);
  [[nodiscard]] std::int64_t bytes() const;
  void use(float* memory);  // of so many bytes; fills it
  // Precondition: prepared, and in use.
  [[nodiscard]] const float* table(const RotaryAngles& angles, std::int64_t d,
                                   std::int64_t s) const;

 private:
  using Key = std::tuple<RotaryAngles, std::int64_t, std::int64_t>;
  std::map<Key, const float*> tables_;
};

// Neighbouring heads of d numbers in each row of x; row r stands at position r % s.
struct HeadRows {
  std::int64_t rows = 0, s = 0, heads = 0, d = 0;
  std::int64_t stride = 0;  // numbers from a row to the next
};

// The way back is the gradient's: a turn is orthogonal.
enum class Turn : std::uint8_t { forth, back };
void rotate(const float* table, const HeadRows& heads, Turn turn, float* x);

}  // namespace weir::cpu

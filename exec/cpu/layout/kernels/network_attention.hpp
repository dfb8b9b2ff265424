// What an attention kernel has beside its products, and rotary positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cpu/layout/kernels/network_kernels.hpp"

namespace weir::cpu {

// Of each row along `over` the gradient of what a softmax was of, from that of its shares, in
// place.
void softmax_gradient_in_place(int over, const NamedBlock& shares, const NamedBlock& gradient);

// Of rotary positions, this processor's: numbers 2 i and 2 i + 1 of a row's `width`, all processors
// together, are turned by p 10000^(-2 i / width) at position p.
struct HeadTurn {
  int positions = 0;            // the dimension along which they are counted
  std::int64_t position = 0;    // of the block's first
  int pairs = 0;                // the dimension of the pairs
  std::int64_t first_pair = 0;  // of the block's
  std::int64_t width = 2;
};
// to += what is turned; backwards by the negative angles.
enum class Turning : std::uint8_t { forwards, backwards };
void add_turned(const HeadTurn& turn, Turning way, const NamedBlock& from, const NamedBlock& to);

}  // namespace weir::cpu

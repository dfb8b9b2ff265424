// What one processor computes of an operation, on its blocks: plain loops, each sum in the order of
// the dimensions, so that what is not split over the mesh has the same bits on every mesh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "exec/cpu/layout/kernels/network_blocks.hpp"

namespace weir::cpu {

// A block with its numbers.
struct NamedBlock {
  const BlockShape* shape = nullptr;
  float* numbers = nullptr;
};

// c += a b, summed over what c does not have. A dimension that c alone has repeats its sums. Fast
// where c's fastest dimension is also the factors' that have it.
void add_product(const NamedBlock& a, const NamedBlock& b, const NamedBlock& c);
// So made: a copy of the factor, with its shape and numbers in the room. None where `factor` is
// fast already.
struct PackingRoom {
  BlockShape shape;
  std::vector<float> numbers;
};
[[nodiscard]] bool is_packed(const BlockShape& factor, const BlockShape& c);
[[nodiscard]] NamedBlock packed(const NamedBlock& factor, const BlockShape& c, PackingRoom& room);
// c += a, summed over what c does not have, repeated over what a does not.
void add_to(const NamedBlock& a, const NamedBlock& c);

// Functions of each element, by name (plan/layout/network_text); and "in" gradients added to.
void apply(std::string_view function, const NamedBlock& in, const NamedBlock& out);
void add_apply_gradient(std::string_view function, const NamedBlock& in,
                        const NamedBlock& gradient_out, const NamedBlock& gradient_in);
// out = a silu(b), a and b the two of `over`.
void glu(int over, const NamedBlock& in, const NamedBlock& out);
void add_glu_gradient(int over, const NamedBlock& in, const NamedBlock& gradient_out,
                      const NamedBlock& gradient_in);

// Of each row along `over` those that are picked: integers in the order of out's numbers.
void choose(int over, const NamedBlock& in, const std::vector<std::int64_t>& picks,
            const NamedBlock& out);
void add_choose_gradient(int over, const std::vector<std::int64_t>& picks,
                         const NamedBlock& gradient_out, const NamedBlock& gradient_in);

}  // namespace weir::cpu

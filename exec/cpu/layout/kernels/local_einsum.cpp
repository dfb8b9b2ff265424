// An einsum as a batch of matrix products: which dimensions are rows, columns, summed and repeated.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/kernels/local_einsum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace weir::cpu {
namespace {

// A block's dimensions with the distance between neighbours along each.
struct Block {
  std::vector<int> dimensions;
  std::vector<std::int64_t> sizes, strides;

  Block(const layout::Program& program, const layout::Layout& layout, int tensor) {
    const layout::NamedTensor& named = program.tensors[static_cast<std::size_t>(tensor)];
    dimensions = named.dimensions;
    sizes = local_shape(program, layout, named);
    strides.assign(sizes.size(), 1);
    for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  }
  [[nodiscard]] std::size_t at(int dimension) const {
    return static_cast<std::size_t>(std::find(dimensions.begin(), dimensions.end(), dimension) -
                                    dimensions.begin());
  }
  [[nodiscard]] bool has(int dimension) const { return at(dimension) < dimensions.size(); }
};

// Several dimensions seen as one: its size, and its stride in each of two blocks.
struct Merged {
  std::int64_t size = 1;
  std::int64_t first_stride = 1;
  std::int64_t second_stride = 1;
};

Merged merge(const Block& first, const Block& second, const Block& without) {
  Merged merged;
  bool any = false;
  for (std::size_t d = first.dimensions.size(); d-- > 0;) {  // from the fastest
    const int dimension = first.dimensions[d];
    // A dimension of size one moves no address.
    if (!second.has(dimension) || without.has(dimension) || first.sizes[d] == 1) continue;
    const std::size_t other = second.at(dimension);
    // Dimensions become one only where the outer steps over the whole of the inner.
    if (any && (first.strides[d] != merged.first_stride * merged.size ||
                second.strides[other] != merged.second_stride * merged.size)) {
      throw std::invalid_argument("its dimensions do not lie side by side");
    }
    if (!any) {
      merged.first_stride = first.strides[d];
      merged.second_stride = second.strides[other];
    }
    merged.size *= first.sizes[d];
    any = true;
  }
  return merged;
}

// One gemm for each index of the dimensions that all three blocks have.
std::vector<LocalEinsum::Offsets> common_indices(const Block& a, const Block& b, const Block& c) {
  std::vector<LocalEinsum::Offsets> offsets{{}};
  for (std::size_t d = 0; d < c.dimensions.size(); ++d) {
    const int dimension = c.dimensions[d];
    if (!a.has(dimension) || !b.has(dimension)) continue;
    std::vector<LocalEinsum::Offsets> finer;
    for (const LocalEinsum::Offsets& base : offsets) {
      for (std::int64_t i = 0; i < c.sizes[d]; ++i) {
        finer.push_back({base.a + i * a.strides[a.at(dimension)],
                         base.b + i * b.strides[b.at(dimension)], base.c + i * c.strides[d]});
      }
    }
    offsets = std::move(finer);
  }
  return offsets;
}

LocalEinsum products_of(const layout::Program& program, const layout::Layout& layout,
                        const layout::Einsum& einsum) {
  if (einsum.inputs.size() != 2) throw std::invalid_argument("it has not two inputs");
  LocalEinsum local;
  local.a = einsum.inputs[0];
  local.b = einsum.inputs[1];
  const Block c(program, layout, einsum.output);
  Block a(program, layout, local.a);
  Block b(program, layout, local.b);
  Merged rows = merge(a, c, b);
  // Rows are what only a and the output have, columns what only b and the output have.
  Merged columns = merge(b, c, a);
  if (columns.size > 1 && columns.second_stride != 1) {  // the output has them the other way round
    std::swap(a, b);
    std::swap(local.a, local.b);
    std::swap(rows, columns);
  }
  // The product writes rows without gaps: one of the two must have the fastest dimension alone.
  if (columns.size > 1 && columns.second_stride != 1) {
    throw std::invalid_argument("its output's fastest dimension is in both inputs");
  }
  const Merged summed = merge(a, b, c);
  Gemm& gemm = local.gemm;
  gemm.m = rows.size;
  gemm.n = columns.size;
  gemm.k = summed.size;
  gemm.a_row = rows.first_stride;
  gemm.a_column = summed.first_stride;
  gemm.b_row = summed.second_stride;
  gemm.b_column = columns.first_stride;
  gemm.c_row = rows.size > 1 ? rows.second_stride : columns.size;
  // The stride along a dimension of size one is free: one that makes the matrix dense.
  if (gemm.m == 1) gemm.a_row = gemm.k * gemm.a_column;
  if (gemm.k == 1) gemm.a_column = gemm.a_row == 1 ? gemm.m : 1;
  if (gemm.k == 1) gemm.b_row = gemm.b_column == 1 ? gemm.n : 1;
  if (gemm.n == 1) gemm.b_column = gemm.b_row == 1 ? gemm.k : 1;
  local.products = common_indices(a, b, c);
  return local;
}

}  // namespace

LocalEinsum local_einsum(const layout::Program& program, const layout::Layout& layout,
                         const layout::Einsum& einsum) {
  try {
    return products_of(program, layout, einsum);
  } catch (const std::invalid_argument& why) {
    throw std::invalid_argument(
        fmt::format("{}: cannot run as matrix products: {}", to_text(program, einsum), why.what()));
  }
}

}  // namespace weir::cpu

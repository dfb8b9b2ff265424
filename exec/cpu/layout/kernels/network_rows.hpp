// Operations along one dimension, row by row: norms, softmax, the loss. Where the dimension is
// split over the mesh, `reduce` sums a row's statistics (or takes the largest) over the processors
// that have its parts, as often as plan/layout/exchanges says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/cpu/layout/kernels/all_reduce.hpp"
#include "exec/cpu/layout/kernels/network_kernels.hpp"

namespace weir::cpu {

struct RowWork {
  int over = 0;
  std::int64_t whole = 1;  // the dimension's size on all processors
  std::int64_t begin = 0;  // of it, where this processor's part is
  std::function<void(std::vector<float>& of_rows, Reduction reduction)> reduce;
  std::array<std::vector<float>, 3>* scratch = nullptr;  // with room for sums of all rows
};

// gain and shift may be none. `statistics` holds a row's two between forward and backward.
struct NormBlocks {
  NamedBlock in, gain, shift;
  bool centred = true;  // a layer norm; else by the mean square alone
};
void norm(const RowWork& work, const NormBlocks& blocks, const NamedBlock& out,
          std::vector<float>& statistics);
void add_norm_gradient(const RowWork& work, const NormBlocks& blocks,
                       const NamedBlock& gradient_out, const std::vector<float>& statistics,
                       const NamedBlock& gradient_in);
// Of the gain; without `scaled` of the shift.
void add_gain_gradient(const RowWork& work, const NormBlocks& blocks,
                       const NamedBlock& gradient_out, const std::vector<float>& statistics,
                       bool scaled, const NamedBlock& gradient);

void softmax(const RowWork& work, const NamedBlock& in, const NamedBlock& out);
void add_softmax_gradient(const RowWork& work, const NamedBlock& out,
                          const NamedBlock& gradient_out, const NamedBlock& gradient_in);

// targets: by row, in the order of the output's block, an index into the whole dimension.
void loss(const RowWork& work, const NamedBlock& in, const std::vector<std::int64_t>& targets,
          const NamedBlock& out, std::vector<float>& statistics);
void add_loss_gradient(const RowWork& work, const NamedBlock& in,
                       const std::vector<std::int64_t>& targets, const NamedBlock& gradient_out,
                       const std::vector<float>& statistics, const NamedBlock& gradient_in);

// Rows of a table; a row that another processor has is 0 here. picks: by row of the output without
// the table's dimensions.
void gather(const RowWork& work, const NamedBlock& table, const std::vector<std::int64_t>& picks,
            const NamedBlock& out);
void add_gather_gradient(const RowWork& work, const std::vector<std::int64_t>& picks,
                         const NamedBlock& gradient_out, const NamedBlock& gradient_table);

}  // namespace weir::cpu

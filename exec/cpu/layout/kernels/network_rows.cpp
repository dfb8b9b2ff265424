// Two passes a row where it has statistics: first these of all rows, then the numbers.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/kernels/network_rows.hpp"

#include <algorithm>
#include <cmath>

#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

constexpr float kEpsilon = 1e-5F;

// visit(row, offsets) for each row of the first block.
template <std::size_t N, class Visit>
void each_row(int over, const std::array<const BlockShape*, N>& blocks, const Visit& visit) {
  const BlockShape rows = blocks[0]->without(over);
  std::size_t row = 0;
  walk<N>(rows.dimensions, blocks,
          [&](const std::array<std::int64_t, N>& at) { visit(row++, at); });
}

std::size_t rows_of(const BlockShape& shape, int over) {
  return static_cast<std::size_t>(shape.without(over).elements);
}

// Room that is there already, as all that a step needs.
std::vector<float>& sums_of(const RowWork& work, std::size_t which, std::size_t n, float from) {
  std::vector<float>& sums = (*work.scratch)[which];
  sums.assign(n, from);
  return sums;
}

// What a gain multiplies by: 1 where there is none.
struct Gain {
  const float* numbers;
  std::int64_t step;
  [[nodiscard]] float at(std::int64_t offset, std::int64_t i) const {
    return numbers == nullptr ? 1.0F : numbers[offset + i * step];
  }
};
Gain gain_of(const NamedBlock& block, int over) {
  return {block.numbers, block.shape == nullptr ? 0 : block.shape->stride(over)};
}
const BlockShape* shape_or(const NamedBlock& block, const BlockShape* otherwise) {
  return block.shape == nullptr ? otherwise : block.shape;
}

// Mean and reciprocal deviation of each row from its sum and sum of squares.
void finish_statistics(std::vector<float>& statistics, bool centred, std::int64_t whole) {
  const auto n = static_cast<float>(whole);
  for (std::size_t r = 0; r + 1 < statistics.size(); r += 2) {
    const float mean = centred ? statistics[r] / n : 0;
    const float variance = statistics[r + 1] / n - mean * mean;
    statistics[r] = mean;
    statistics[r + 1] = 1 / std::sqrt(std::max(variance, 0.0F) + kEpsilon);
  }
}

}  // namespace

void norm(const RowWork& work, const NormBlocks& blocks, const NamedBlock& out,
          std::vector<float>& statistics) {
  const std::size_t rows = rows_of(*blocks.in.shape, work.over);
  const std::int64_t n = blocks.in.shape->size(work.over),
                     step = blocks.in.shape->stride(work.over),
                     out_step = out.shape->stride(work.over);
  const std::size_t each = blocks.centred ? 2 : 1;
  std::vector<float>& sums = sums_of(work, 0, rows * each, 0);
  each_row<1>(work.over, {blocks.in.shape}, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = blocks.in.numbers[at[0] + i * step];
      sums[row * each + each - 1] += x * x;
      if (blocks.centred) sums[row * each] += x;
    }
  });
  work.reduce(sums, Reduction::sum);
  statistics.assign(rows * 2, 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    if (blocks.centred) statistics[row * 2] = sums[row * 2];
    statistics[row * 2 + 1] = sums[row * each + each - 1];
  }
  finish_statistics(statistics, blocks.centred, work.whole);
  const Gain gain = gain_of(blocks.gain, work.over), shift = gain_of(blocks.shift, work.over);
  const BlockShape none;
  each_row<4>(
      work.over,
      {blocks.in.shape, out.shape, shape_or(blocks.gain, &none), shape_or(blocks.shift, &none)},
      [&](std::size_t row, const auto& at) {
        for (std::int64_t i = 0; i < n; ++i) {
          const float x = blocks.in.numbers[at[0] + i * step];
          const float y = (x - statistics[row * 2]) * statistics[row * 2 + 1];
          out.numbers[at[1] + i * out_step] =
              y * gain.at(at[2], i) + (shift.numbers == nullptr ? 0.0F : shift.at(at[3], i));
        }
      });
}

void add_norm_gradient(const RowWork& work, const NormBlocks& blocks,
                       const NamedBlock& gradient_out, const std::vector<float>& statistics,
                       const NamedBlock& gradient_in) {
  const std::int64_t n = blocks.in.shape->size(work.over),
                     step = blocks.in.shape->stride(work.over),
                     out_step = gradient_out.shape->stride(work.over),
                     in_step = gradient_in.shape->stride(work.over);
  const std::size_t each = blocks.centred ? 2 : 1;
  std::vector<float>& sums = sums_of(work, 0, rows_of(*blocks.in.shape, work.over) * each, 0);
  const Gain gain = gain_of(blocks.gain, work.over);
  const BlockShape none;
  const std::array<const BlockShape*, 4> shapes{blocks.in.shape, gradient_out.shape,
                                                shape_or(blocks.gain, &none), gradient_in.shape};
  const auto normed = [&](std::size_t row, std::int64_t offset) {
    return (blocks.in.numbers[offset] - statistics[row * 2]) * statistics[row * 2 + 1];
  };
  const auto scaled = [&](const auto& at, std::int64_t i) {
    return gradient_out.numbers[at[1] + i * out_step] * gain.at(at[2], i);
  };
  each_row<4>(work.over, shapes, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float g = scaled(at, i);
      sums[row * each + each - 1] += g * normed(row, at[0] + i * step);
      if (blocks.centred) sums[row * each] += g;
    }
  });
  work.reduce(sums, Reduction::sum);
  const auto all = static_cast<float>(work.whole);
  each_row<4>(work.over, shapes, [&](std::size_t row, const auto& at) {
    const float along = sums[row * each + each - 1] / all,
                mean = blocks.centred ? sums[row * each] / all : 0.0F;
    for (std::int64_t i = 0; i < n; ++i) {
      gradient_in.numbers[at[3] + i * in_step] +=
          statistics[row * 2 + 1] * (scaled(at, i) - mean - normed(row, at[0] + i * step) * along);
    }
  });
}

void add_gain_gradient(const RowWork& work, const NormBlocks& blocks,
                       const NamedBlock& gradient_out, const std::vector<float>& statistics,
                       bool scaled, const NamedBlock& gradient) {
  const std::int64_t n = blocks.in.shape->size(work.over),
                     step = blocks.in.shape->stride(work.over),
                     out_step = gradient_out.shape->stride(work.over),
                     gain_step = gradient.shape->stride(work.over);
  each_row<3>(work.over, {blocks.in.shape, gradient_out.shape, gradient.shape},
              [&](std::size_t row, const auto& at) {
                for (std::int64_t i = 0; i < n; ++i) {
                  const float g = gradient_out.numbers[at[1] + i * out_step];
                  const float x = blocks.in.numbers[at[0] + i * step];
                  gradient.numbers[at[2] + i * gain_step] +=
                      scaled ? g * (x - statistics[row * 2]) * statistics[row * 2 + 1] : g;
                }
              });
}

void softmax(const RowWork& work, const NamedBlock& in, const NamedBlock& out) {
  const std::int64_t n = in.shape->size(work.over), step = in.shape->stride(work.over),
                     out_step = out.shape->stride(work.over);
  const std::size_t rows = rows_of(*in.shape, work.over);
  std::vector<float>&largest = sums_of(work, 0, rows, -INFINITY), &sums = sums_of(work, 1, rows, 0);
  each_row<1>(work.over, {in.shape}, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i)
      largest[row] = std::max(largest[row], in.numbers[at[0] + i * step]);
  });
  work.reduce(largest, Reduction::largest);
  each_row<2>(work.over, {in.shape, out.shape}, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float e = std::exp(in.numbers[at[0] + i * step] - largest[row]);
      out.numbers[at[1] + i * out_step] = e;
      sums[row] += e;
    }
  });
  work.reduce(sums, Reduction::sum);
  each_row<2>(work.over, {in.shape, out.shape}, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) out.numbers[at[1] + i * out_step] /= sums[row];
  });
}

void add_softmax_gradient(const RowWork& work, const NamedBlock& out,
                          const NamedBlock& gradient_out, const NamedBlock& gradient_in) {
  const std::int64_t n = out.shape->size(work.over), step = out.shape->stride(work.over),
                     out_step = gradient_out.shape->stride(work.over),
                     in_step = gradient_in.shape->stride(work.over);
  std::vector<float>& sums = sums_of(work, 0, rows_of(*out.shape, work.over), 0);
  const std::array<const BlockShape*, 3> shapes{out.shape, gradient_out.shape, gradient_in.shape};
  each_row<3>(work.over, shapes, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) {
      sums[row] += out.numbers[at[0] + i * step] * gradient_out.numbers[at[1] + i * out_step];
    }
  });
  work.reduce(sums, Reduction::sum);
  each_row<3>(work.over, shapes, [&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i) {
      gradient_in.numbers[at[2] + i * in_step] +=
          out.numbers[at[0] + i * step] * (gradient_out.numbers[at[1] + i * out_step] - sums[row]);
    }
  });
}

void loss(const RowWork& work, const NamedBlock& in, const std::vector<std::int64_t>& targets,
          const NamedBlock& out, std::vector<float>& statistics) {
  const std::int64_t n = in.shape->size(work.over), step = in.shape->stride(work.over);
  const std::size_t rows = rows_of(*in.shape, work.over);
  std::vector<float>&largest = sums_of(work, 0, rows, -INFINITY), &sums = sums_of(work, 1, rows, 0),
  &its = sums_of(work, 2, rows, 0);
  // Rows in the output's order, which targets are in.
  const auto each = [&](const auto& visit) {
    std::size_t row = 0;
    walk<2>(out.shape->dimensions, {in.shape, out.shape},
            [&](const std::array<std::int64_t, 2>& at) { visit(row++, at); });
  };
  each([&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i)
      largest[row] = std::max(largest[row], in.numbers[at[0] + i * step]);
  });
  work.reduce(largest, Reduction::largest);
  each([&](std::size_t row, const auto& at) {
    for (std::int64_t i = 0; i < n; ++i)
      sums[row] += std::exp(in.numbers[at[0] + i * step] - largest[row]);
    const std::int64_t target = targets[row] - work.begin;
    if (target >= 0 && target < n) its[row] = in.numbers[at[0] + target * step];
  });
  work.reduce(sums, Reduction::sum);
  work.reduce(its, Reduction::sum);
  statistics.assign(rows * 2, 0.0F);
  each([&](std::size_t row, const auto& at) {
    out.numbers[at[1]] = std::log(sums[row]) + largest[row] - its[row];
    statistics[row * 2] = largest[row];
    statistics[row * 2 + 1] = 1 / sums[row];
  });
}

void add_loss_gradient(const RowWork& work, const NamedBlock& in,
                       const std::vector<std::int64_t>& targets, const NamedBlock& gradient_out,
                       const std::vector<float>& statistics, const NamedBlock& gradient_in) {
  const std::int64_t n = in.shape->size(work.over), step = in.shape->stride(work.over),
                     in_step = gradient_in.shape->stride(work.over);
  std::size_t row = 0;
  walk<3>(gradient_out.shape->dimensions, {in.shape, gradient_out.shape, gradient_in.shape},
          [&](const std::array<std::int64_t, 3>& at) {
            const float g = gradient_out.numbers[at[1]];
            for (std::int64_t i = 0; i < n; ++i) {
              const float p = std::exp(in.numbers[at[0] + i * step] - statistics[row * 2]) *
                              statistics[row * 2 + 1];
              const bool its = targets[row] == work.begin + i;
              gradient_in.numbers[at[2] + i * in_step] += g * (its ? p - 1 : p);
            }
            ++row;
          });
}

namespace {

// visit(pick, table offset, output offset) for each number of the output whose pick is here.
template <class Visit>
void each_pick(const RowWork& work, const BlockShape& table, const std::vector<std::int64_t>& picks,
               const BlockShape& out, const Visit& visit) {
  const BlockShape columns = table.without(work.over);
  BlockShape rows = out;
  for (const int d : columns.dimensions) rows = rows.without(d);
  std::size_t row = 0;
  walk<1>(rows.dimensions, {&out}, [&](const std::array<std::int64_t, 1>& begin) {
    const std::int64_t pick = picks[row++] - work.begin;
    if (pick < 0 || pick >= table.size(work.over)) return;
    walk<2>(columns.dimensions, {&table, &out}, [&](const std::array<std::int64_t, 2>& at) {
      visit(at[0] + pick * table.stride(work.over), begin[0] + at[1]);
    });
  });
}

}  // namespace

void gather(const RowWork& work, const NamedBlock& table, const std::vector<std::int64_t>& picks,
            const NamedBlock& out) {
  std::fill_n(out.numbers, out.shape->elements, 0.0F);
  each_pick(work, *table.shape, picks, *out.shape,
            [&](std::int64_t from, std::int64_t to) { out.numbers[to] = table.numbers[from]; });
}

void add_gather_gradient(const RowWork& work, const std::vector<std::int64_t>& picks,
                         const NamedBlock& gradient_out, const NamedBlock& gradient_table) {
  each_pick(work, *gradient_table.shape, picks, *gradient_out.shape,
            [&](std::int64_t to, std::int64_t from) {
              gradient_table.numbers[to] += gradient_out.numbers[from];
            });
}

}  // namespace weir::cpu

// An all-reduce in three phases, with a barrier between them: meet, each member sums its own part,
// each copies the others' parts.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/kernels/all_reduce.hpp"

#include <algorithm>

namespace weir::cpu {
namespace {

constexpr std::int64_t kLine = 16;  // floats of a cache line: no line is written by two members
constexpr std::int64_t kChunk =
    4096;  // floats summed at a time, so that a partial sum stays in the first-level cache

}  // namespace

std::int64_t ReducedParts::begin_of(int member) const {
  const std::int64_t lines = (elements + kLine - 1) / kLine;
  return std::min(elements, lines * member / members * kLine);
}

std::int64_t ReducedParts::exchanged(int member) const {
  const std::int64_t own = begin_of(member + 1) - begin_of(member);
  return own * (members - 1) + (elements - own);
}

void reduce_own_part(const std::vector<float*>& blocks, const ReducedParts& parts, int member,
                     Reduction reduction) {
  reduce_range(blocks, parts.begin_of(member), parts.begin_of(member + 1), member, reduction);
}

void reduce_range(const std::vector<float*>& blocks, std::int64_t from, std::int64_t end, int into,
                  Reduction reduction) {
  float sum[kChunk];
  for (; from < end; from += kChunk) {
    const std::int64_t n = std::min(kChunk, end - from);
    std::copy_n(blocks[0] + from, n, sum);
    for (std::size_t other = 1; other < blocks.size(); ++other) {
      const float* values = blocks[other] + from;
      if (reduction == Reduction::sum) {
        for (std::int64_t i = 0; i < n; ++i) sum[i] += values[i];
      } else {
        for (std::int64_t i = 0; i < n; ++i) sum[i] = std::max(sum[i], values[i]);
      }
    }
    std::copy_n(sum, n, blocks[static_cast<std::size_t>(into)] + from);
  }
}

void take_other_parts(const std::vector<float*>& blocks, const ReducedParts& parts, int member) {
  float* block = blocks[static_cast<std::size_t>(member)];
  for (int other = 0; other < parts.members; ++other) {
    if (other == member) continue;
    const std::int64_t from = parts.begin_of(other);
    std::copy_n(blocks[static_cast<std::size_t>(other)] + from, parts.begin_of(other + 1) - from,
                block + from);
  }
}

AllReduce::AllReduce(int members, std::int64_t elements)
    : parts_{members, elements},
      blocks_(static_cast<std::size_t>(members), nullptr),
      meeting_(members) {}

void AllReduce::run(int member, float* block) {
  // 1. Every member says where its block is. The barrier makes the others' values visible, too.
  blocks_[static_cast<std::size_t>(member)] = block;
  meeting_.arrive_and_wait();
  // 2. Each sums its own part of all blocks, in the order of members: the same bits in every run.
  reduce_own_part(blocks_, parts_, member, Reduction::sum);
  meeting_.arrive_and_wait();
  // 3. Each takes the parts that the others have summed, and nobody goes on before all have.
  take_other_parts(blocks_, parts_, member);
  meeting_.arrive_and_wait();
}

}  // namespace weir::cpu

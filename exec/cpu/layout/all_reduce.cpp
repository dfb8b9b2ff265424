// An all-reduce in three phases, with a barrier between them: meet, each member sums its own part,
// each copies the others' parts.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/all_reduce.hpp"

#include <algorithm>

namespace weir::cpu {
namespace {

constexpr std::int64_t kLine = 16;  // floats of a cache line: no line is written by two members
constexpr std::int64_t kChunk =
    4096;  // floats summed at a time, so that a partial sum stays in the first-level cache

}  // namespace

AllReduce::AllReduce(int members, std::int64_t elements)
    : elements_(elements), blocks_(static_cast<std::size_t>(members), nullptr), meeting_(members) {}

std::int64_t AllReduce::begin_of(int member) const {
  const std::int64_t lines = (elements_ + kLine - 1) / kLine;
  return std::min(elements_, lines * member / members() * kLine);
}

std::int64_t AllReduce::exchanged(int member) const {
  const std::int64_t own = begin_of(member + 1) - begin_of(member);
  return own * (members() - 1) + (elements_ - own);
}

void AllReduce::run(int member, float* block) {
  // 1. Every member says where its block is. The barrier makes the others' values visible, too.
  blocks_[static_cast<std::size_t>(member)] = block;
  meeting_.arrive_and_wait();
  // 2. Each sums its own part of all blocks, in the order of members: the same bits in every run.
  const std::int64_t end = begin_of(member + 1);
  float sum[kChunk];
  for (std::int64_t from = begin_of(member); from < end; from += kChunk) {
    const std::int64_t n = std::min(kChunk, end - from);
    std::copy_n(blocks_[0] + from, n, sum);
    for (std::size_t other = 1; other < blocks_.size(); ++other) {
      const float* values = blocks_[other] + from;
      for (std::int64_t i = 0; i < n; ++i) sum[i] += values[i];
    }
    std::copy_n(sum, n, block + from);
  }
  meeting_.arrive_and_wait();
  // 3. Each takes the parts that the others have summed.
  for (int other = 0; other < members(); ++other) {
    if (other == member) continue;
    const std::int64_t from = begin_of(other);
    std::copy_n(blocks_[static_cast<std::size_t>(other)] + from, begin_of(other + 1) - from,
                block + from);
  }
  meeting_.arrive_and_wait();
}

}  // namespace weir::cpu

// All-reduce between threads that share memory: a reduce-scatter and an all-gather, each member
// reading from the others' blocks, so each reads 2 (g-1)/g of a block from others, the least an
// all-reduce can do. Sums run over the members in ascending order: every member ends with the same
// bits, on every run.
//
//     block of member 0   [ sums here | copied    ]
//     block of member 1   [ copied    | sums here ]
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <cstdint>
#include <vector>

namespace weir::cpu {

// Which part of a block each member sums: whole cache lines, so that none is written by two.
struct ReducedParts {
  int members = 1;
  std::int64_t elements = 0;
  [[nodiscard]] std::int64_t begin_of(int member) const;
  // Elements that a member reads from others, in one run.
  [[nodiscard]] std::int64_t exchanged(int member) const;
};

enum class Reduction : std::uint8_t { sum, largest };
// Between the meetings: a member's own part of all blocks, in the order of members, into its own;
// and the others' parts from theirs.
void reduce_own_part(const std::vector<float*>& blocks, const ReducedParts& parts, int member,
                     Reduction reduction);
// Numbers from..end-1 of all blocks, in the order of blocks, into one of them.
void reduce_range(const std::vector<float*>& blocks, std::int64_t from, std::int64_t end, int into,
                  Reduction reduction);
void take_other_parts(const std::vector<float*>& blocks, const ReducedParts& parts, int member);

class AllReduce {
 public:
  AllReduce(int members, std::int64_t elements);

  // Every member calls it, with its block; returns when its block holds the sum and nobody reads
  // from it any more.
  void run(int member, float* block);

  [[nodiscard]] const ReducedParts& parts() const { return parts_; }

 private:
  ReducedParts parts_;
  std::vector<float*> blocks_;
  std::barrier<> meeting_;
};

}  // namespace weir::cpu

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

class AllReduce {
 public:
  AllReduce(int members, std::int64_t elements);

  // Every member calls it, with its block; returns when its block holds the sum and nobody reads
  // from it any more.
  void run(int member, float* block);

  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] int members() const { return static_cast<int>(blocks_.size()); }
  // Elements that a member reads from others, in one run.
  [[nodiscard]] std::int64_t exchanged(int member) const;

 private:
  [[nodiscard]] std::int64_t begin_of(int member) const;

  std::int64_t elements_;
  std::vector<float*> blocks_;
  std::barrier<> meeting_;
};

}  // namespace weir::cpu

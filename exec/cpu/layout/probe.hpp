// What the cores of this machine do when all of them are busy: the three rates that a layout's time
// is predicted from. They are measured on shapes of their own, not on a program's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "exec/cpu/layout/kernels/all_reduce.hpp"
#include "exec/cpu/layout/workers.hpp"
#include "plan/words/units.hpp"

namespace weir::cpu {

class MeshProbe {
 public:
  explicit MeshProbe(Workers& workers);
  ~MeshProbe();

  // One repetition of each, by the workers' core clocks; means over them.
  struct Sample {
    Seconds product{0};       // kEdge^3 multiply-adds on each worker
    Seconds elementwise{0};   // kElements through relu and its gradient's mask each
    Seconds small_reduce{0};  // an all-reduce of kFew elements between all workers
    Seconds large_reduce{0};  // of kElements
    Seconds small_wall{0};    // the small one by the wall clock: mostly waiting
  };
  [[nodiscard]] Sample measure();

  static constexpr std::int64_t kEdge = 512;
  static constexpr std::int64_t kFew = 64;
  static constexpr std::int64_t kElements = 1 << 20;
  // Read by a worker from others in an all-reduce of so many elements.
  [[nodiscard]] Bytes exchanged(std::int64_t elements) const;

 private:
  struct Bench;
  Workers& workers_;
  AllReduce small_, large_;
  std::vector<std::unique_ptr<Bench>> benches_;
};

}  // namespace weir::cpu

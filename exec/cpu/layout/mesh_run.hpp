// A program of einsums run for real under a layout: every processor of the mesh is a worker that
// holds its blocks, multiplies them, and all-reduces its partial results with the others. What was
// multiplied and exchanged is counted as it happens, so that a formula can be held against it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/cpu/layout/kernels/all_reduce.hpp"
#include "exec/cpu/layout/kernels/local_einsum.hpp"
#include "exec/cpu/layout/workers.hpp"
#include "exec/device/arena.hpp"
#include "plan/layout/layout.hpp"
#include "plan/words/units.hpp"

namespace weir::cpu {

// One worker, one step.
struct MeshCounts {
  std::int64_t multiply_adds = 0;
  std::int64_t all_reduces = 0;
  std::int64_t reduced_elements = 0;
  std::int64_t exchanged_elements = 0;  // read from others
  Bytes memory;                         // its blocks, each rounded up to 64 bytes
};

// `step` is by the wall clock, from the first worker's start to the last one's end. The others are
// by the workers' core clocks (exec/cpu/layout/core_clock.hpp), means over them; what is left of
// the step is waiting, for each other or for their cores.
struct MeshTimes {
  Seconds step{0}, products{0}, elementwise{0}, all_reduces{0};
  std::int64_t preemptions = 0;  // of all workers
};

// Given tensors hold whole numbers from -2 to 2. Whether then no sum in the program can reach 2^24:
// fp32 rounds nowhere, and every layout must give the very same numbers as the unsplit computation.
[[nodiscard]] bool rounds_nowhere(const layout::Program& program);

class MeshRun {
 public:
  // A mesh of exactly the workers' number. Tensors that are given hold numbers of `seed`, the same
  // for every layout. Throws std::invalid_argument where an einsum cannot run as matrix products.
  MeshRun(const layout::Program& program, const layout::Layout& layout, Workers& workers,
          std::uint64_t seed);
  ~MeshRun();

  MeshTimes step();  // forward and backward
  [[nodiscard]] const std::vector<MeshCounts>& counts() const { return counts_; }

  [[nodiscard]] std::span<const float> block(int worker, int tensor) const;

  // The largest difference between a block's element, on any worker, and the same of the other
  // run's, over the largest element of the tensor; for the worst tensor. Both must have made a
  // step. `whole` runs on a mesh of one.
  [[nodiscard]] double difference(const MeshRun& whole) const;

 private:
  struct Processor;
  struct Step {
    LocalEinsum local;
    std::vector<std::unique_ptr<AllReduce>> groups;  // none: nothing is summed over the mesh
    std::vector<std::size_t> group_of, member_of;    // by worker
    bool accumulates = false;                        // the output was written before in this step
  };
  [[nodiscard]] Step prepare(const layout::Einsum& einsum) const;
  void run(int worker);
  void finish(const layout::Einsum& einsum, Processor& processor, float* sums, bool add) const;
  [[nodiscard]] std::int64_t block_elements(int tensor) const;

  const layout::Program& program_;
  layout::Layout layout_;
  Workers& workers_;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Processor>> processors_;
  std::vector<MeshCounts> counts_;
};

}  // namespace weir::cpu

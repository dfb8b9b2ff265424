// A layout run on a mesh of threads: local products, all-reduces, element-wise functions, timed and
// counted.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/mesh_run.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <map>

#include "exec/cpu/layout/apart.hpp"
#include "exec/cpu/layout/core_clock.hpp"
#include "exec/cpu/layout/kernels/elementwise.hpp"
#include "exec/cpu/layout/kernels/network_blocks.hpp"
#include "exec/device/host_blocks.hpp"
#include "exec/training/philox.hpp"

namespace weir::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// -2, -1, 1 or 2: a function of seed, tensor and element, so that every layout splits the same
// tensors.
float given_value(std::uint64_t seed, int tensor, std::int64_t element) {
  const auto index = static_cast<std::uint64_t>(element) / 4;
  const PhiloxBlock block =
      philox4x32_10({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                      static_cast<std::uint32_t>(tensor), 0}},
                    seed);
  static constexpr float kValues[] = {-2, -1, 1, 2};
  return kValues[block.word[element % 4] >> 30];
}

// Walks a block in order and says for each element where it is in the whole tensor.
template <class Visit>
void for_each_element(const layout::Program& program, const layout::Layout& layout, int tensor,
                      int processor, Visit&& visit) {
  const layout::NamedTensor& named = program.tensors[tensor];
  const auto position = coordinates(layout, processor);
  const BlockShape block(named.dimensions, local_shape(program, layout, named));
  std::vector<std::int64_t> sizes;
  for (const int d : named.dimensions) sizes.push_back(program.dimensions[d].size);
  // The whole's strides, a block's sizes.
  BlockShape within = block;
  within.strides = BlockShape(named.dimensions, std::move(sizes)).strides;
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < block.sizes.size(); ++d) {
    const int on = layout.split_over[named.dimensions[d]];
    if (on >= 0) begin += position[on] * block.sizes[d] * within.strides[d];
  }
  walk<2>(named.dimensions, {&block, &within},
          [&](const std::array<std::int64_t, 2>& at) { visit(at[0], begin + at[1]); });
}

}  // namespace

bool rounds_nowhere(const layout::Program& program) {
  constexpr double kLargestGiven = 2;
  std::vector<double> largest(program.tensors.size(), 0);  // of what was computed so far
  for (const layout::Einsum& einsum : program.einsums) {
    double sum = 1;
    for (const int d : reduced_dimensions(program, einsum))
      sum *= static_cast<double>(program.dimensions[d].size);
    for (const int input : einsum.inputs)
      sum *= largest[input] > 0 ? largest[input] : kLargestGiven;
    largest[einsum.output] += sum;
  }
  return *std::max_element(largest.begin(), largest.end()) < 0x1p24;
}

struct MeshRun::Processor {
  HostBlocks source;
  Arena arena{source};
  std::vector<Tensor> blocks;  // by tensor
  Tensor partial;              // of an einsum that adds to its output
  Tensor scratch;              // the library's
  Matmul matmul;
  Clock::time_point start, end;
  Seconds products{0}, elementwise{0}, all_reduces{0};  // by the core clock
  std::int64_t preemptions = 0;
};

MeshRun::MeshRun(const layout::Program& program, const layout::Layout& layout, Workers& workers,
                 std::uint64_t seed)
    : program_(program), layout_(layout), workers_(workers) {
  assert(processors(layout) == workers.count() && "one worker a processor");
  std::vector<bool> written(program.tensors.size(), false);
  std::int64_t partial_elements = 0;
  for (const layout::Einsum& einsum : program.einsums) {
    steps_.push_back(prepare(einsum));
    // A tensor that is written twice is a sum: the second product is made apart and then added.
    steps_.back().accumulates = written[einsum.output];
    if (written[einsum.output])
      partial_elements = std::max(partial_elements, block_elements(einsum.output));
    written[einsum.output] = true;
  }
  counts_.resize(workers.count());
  for (int p = 0; p < workers.count(); ++p) processors_.push_back(std::make_unique<Processor>());
  workers.run([&](int worker) {
    Processor& processor = *processors_[worker];
    for (int t = 0; t < static_cast<int>(program.tensors.size()); ++t) {
      processor.blocks.push_back(processor.arena.allocate(4 * block_elements(t)));
      float* values = processor.blocks.back().floats();
      // Only tensors that nobody computes are given values.
      if (written[t]) continue;
      for_each_element(program, layout_, t, worker, [&](std::int64_t i, std::int64_t whole) {
        values[i] = given_value(seed, t, whole);
      });
    }
    // Counted before scratch: it is the blocks that the layout is priced by.
    counts_[worker].memory = processor.arena.live();
    processor.partial = processor.arena.allocate(4 * partial_elements);
    for (const Step& step : steps_) processor.matmul.prepare(step.local.gemm);
    processor.scratch = processor.arena.allocate(processor.matmul.scratch_bytes());
    processor.matmul.use_scratch(processor.scratch.floats());
  });
}

MeshRun::~MeshRun() {
  for (const auto& processor : processors_) {
    for (Tensor& block : processor->blocks) processor->arena.release(block);
    processor->arena.release(processor->partial);
    processor->arena.release(processor->scratch);
  }
}

std::int64_t MeshRun::block_elements(int tensor) const {
  std::int64_t elements = 1;
  for (const std::int64_t size : local_shape(program_, layout_, program_.tensors[tensor]))
    elements *= size;
  return elements;
}

// Workers whose coordinates differ only along the reduced mesh dimensions form a group, in order of
// their numbers.
MeshRun::Step MeshRun::prepare(const layout::Einsum& einsum) const {
  Step step;
  step.local = local_einsum(program_, layout_, einsum);
  const auto reduced = reduced_mesh_dimensions(program_, layout_, einsum);
  int size = 1;
  for (const int m : reduced) size *= static_cast<int>(layout_.mesh[m].size);
  if (size == 1) return step;
  std::map<std::vector<std::int64_t>, std::size_t> groups;
  std::vector<std::size_t> members;
  for (int worker = 0; worker < workers_.count(); ++worker) {
    auto key = coordinates(layout_, worker);
    // Along the reduced dimensions all are of one group: their coordinates there do not count.
    for (const int m : reduced) key[m] = 0;
    const auto [group, fresh] = groups.emplace(key, groups.size());
    if (fresh) {
      step.groups.push_back(std::make_unique<AllReduce>(size, block_elements(einsum.output)));
      members.push_back(0);
    }
    step.group_of.push_back(group->second);
    step.member_of.push_back(members[group->second]++);
  }
  return step;
}

MeshTimes MeshRun::step() {
  workers_.run([this](int worker) { run(worker); });
  MeshTimes times;
  auto start = processors_[0]->start;
  auto end = processors_[0]->end;
  for (const auto& processor : processors_) {
    start = std::min(start, processor->start);
    end = std::max(end, processor->end);
    times.products += processor->products / workers_.count();
    times.elementwise += processor->elementwise / workers_.count();
    times.all_reduces += processor->all_reduces / workers_.count();
    times.preemptions += processor->preemptions;
  }
  times.step = end - start;
  return times;
}

void MeshRun::run(int worker) {
  Processor& processor = *processors_[worker];
  MeshCounts counts;
  counts.memory = counts_[worker].memory;
  processor.products = processor.elementwise = processor.all_reduces = Seconds(0);
  // All begin together, so that nobody's time holds another's start.
  workers_.meet();
  processor.preemptions = -preemptions();
  processor.start = Clock::now();
  Seconds before = core_time();
  const auto lap = [&](Seconds& to) {
    const Seconds now = core_time();
    to += now - before;
    before = now;
  };
  for (std::size_t e = 0; e < steps_.size(); ++e) {
    const Step& step = steps_[e];
    const layout::Einsum& einsum = program_.einsums[e];
    float* output = processor.blocks[einsum.output].floats();
    float* sums = step.accumulates ? processor.partial.floats() : output;
    // Products repeat over dimensions that all three tensors have.
    const float* a = processor.blocks[step.local.a].floats();
    const float* b = processor.blocks[step.local.b].floats();
    for (const LocalEinsum::Offsets& offset : step.local.products) {
      processor.matmul.run(step.local.gemm, a + offset.a, b + offset.b, nullptr, sums + offset.c);
    }
    counts.multiply_adds += step.local.multiply_adds();
    lap(processor.products);
    if (!step.groups.empty()) {
      AllReduce& group = *step.groups[step.group_of[worker]];
      const int member = static_cast<int>(step.member_of[worker]);
      group.run(member, sums);
      ++counts.all_reduces;
      counts.reduced_elements += group.parts().elements;
      counts.exchanged_elements += group.parts().exchanged(member);
      lap(processor.all_reduces);
    }
    finish(einsum, processor, sums, step.accumulates);
    lap(processor.elementwise);
  }
  processor.end = Clock::now();
  processor.preemptions += preemptions();
  counts_[worker] = counts;
}

void MeshRun::finish(const layout::Einsum& einsum, Processor& processor, float* sums,
                     bool add) const {
  const std::int64_t n = block_elements(einsum.output);
  if (einsum.function == layout::Function::relu) relu(n, sums);
  if (einsum.masked_by >= 0) mask(processor.blocks[einsum.masked_by].floats(), n, sums);
  if (add) accumulate(sums, n, processor.blocks[einsum.output].floats());
}

std::span<const float> MeshRun::block(int worker, int tensor) const {
  return {processors_[worker]->blocks[tensor].floats(),
          static_cast<std::size_t>(block_elements(tensor))};
}

double MeshRun::difference(const MeshRun& whole) const {
  double worst = 0;
  for (int t = 0; t < static_cast<int>(program_.tensors.size()); ++t) {
    const auto expected = whole.block(0, t);
    Apart apart;
    for (int p = 0; p < workers_.count(); ++p) {
      const auto values = block(p, t);
      for_each_element(program_, layout_, t, p, [&](std::int64_t i, std::int64_t from) {
        apart.compare(values[static_cast<std::size_t>(i)],
                      expected[static_cast<std::size_t>(from)]);
      });
    }
    const double relative = apart.relative();
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

}  // namespace weir::cpu

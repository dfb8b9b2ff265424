// One processor of a network run: its blocks, and the instructions that it carries out on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_figures.hpp"
#include "exec/cpu/layout/network_plan.hpp"
#include "exec/cpu/layout/network_rows.hpp"

namespace weir::cpu {

// What has been added up of a gradient so far, over these processors a partial sum. Of a weight a
// part is one operation's, as each is reduced by itself.
struct GradientPart {
  layout::Axes partial = 0;
  int operation = -1;
  std::vector<float> numbers;
};

// Those of a tensor. All are made before the first step, as many as the plan says.
struct GradientParts {
  std::vector<GradientPart> all;
  std::size_t used = 0;  // in this step; the others are zeros
  [[nodiscard]] std::span<GradientPart> parts() { return std::span(all).first(used); }
  [[nodiscard]] std::span<const GradientPart> parts() const { return std::span(all).first(used); }
};

// One repetition of a layer; by tensor, then by step over time, where it is one of a step.
struct NodeBlocks {
  std::vector<std::vector<std::vector<float>>> values;
  std::vector<std::vector<GradientParts>> gradients;
  // By operation, then by step. Picks are the integers that a gather or a loss is given.
  std::vector<std::vector<std::vector<float>>> statistics;
  std::vector<std::vector<std::vector<std::int64_t>>> picks;
};

class NetworkProcessor {
 public:
  NetworkProcessor(const layout::Network& network, const layout::NetworkLayout& layout,
                   const NetworkPlan& plan, Board& board, int processor, std::uint64_t seed);

  void step();
  [[nodiscard]] double held_bytes() const;  // of its numbers
  [[nodiscard]] const NetworkCounts& counts() const { return counts_; }
  [[nodiscard]] const NetworkTimes& times() const { return times_; }
  [[nodiscard]] const std::vector<NodeBlocks>& nodes() const { return nodes_; }
  [[nodiscard]] const MeshPlace& place() const { return place_; }

 private:
  void make_blocks(std::size_t node);
  void give_weights(std::size_t node);
  void reset();
  void give_values(std::size_t node);
  void forward(std::size_t node);
  void backward(std::size_t node);
  void hand_on(std::size_t node);
  void reduce_weights();
  void carry_out(const layout::Instruction& instruction, std::int64_t time);

  void compute(const layout::Operation& o, std::int64_t time);
  void multiply(const layout::Operation& o, const NamedBlock& a, const NamedBlock& b,
                const NamedBlock& c);
  void take_step(const layout::Operation& o, std::int64_t time);
  void stack(const layout::Operation& o);
  void move(const layout::Instruction& instruction, std::int64_t time);
  void gradient(const layout::Instruction& instruction, std::int64_t time);
  void row_gradient(const layout::Operation& o, int tensor, const NamedBlock& out,
                    const NamedBlock& in, std::int64_t time);
  void stack_gradient(const layout::Instruction& instruction);
  void move_gradient(const layout::Instruction& instruction, std::int64_t time);
  void all_reduce(layout::Axes axes, std::vector<float>& numbers);

  [[nodiscard]] std::size_t slot(int tensor, std::int64_t time) const;
  [[nodiscard]] NamedBlock value(int tensor, std::int64_t time);
  // All parts as one: of those that are no partial sums where others are, one processor's counts.
  GradientPart& combined(int tensor, std::int64_t time);
  GradientPart& part_of(int tensor, std::int64_t time, layout::Axes partial, int operation);
  [[nodiscard]] RowWork rows(const layout::Operation& o, const layout::NetworkTensor& tensor);
  [[nodiscard]] NormBlocks norm_blocks(const layout::Operation& o, std::int64_t time);
  [[nodiscard]] std::vector<std::int64_t> picks(std::size_t node, const layout::Operation& o,
                                                std::int64_t time) const;
  void fill(std::vector<float>& numbers, const layout::NetworkTensor& tensor, std::uint64_t key,
            int halvings) const;
  void lap(Seconds& to);

  const layout::Network& network_;
  const layout::NetworkLayout& layout_;
  const NetworkPlan& plan_;
  Board& board_;
  MeshPlace place_;
  std::uint64_t seed_;
  std::vector<NodeBlocks> nodes_;
  std::array<std::vector<float>, 3> of_rows_;    // scratch of operations along rows
  std::vector<float> moved_;                     // and of a gradient on its way home
  std::array<PackingRoom, 2> packed_;            // and of a product's factors
  std::size_t node_ = 0;                         // the one that is carried out
  const layout::NetworkLayer* layer_ = nullptr;  // its layer
  NetworkCounts counts_;
  NetworkTimes times_;
  Seconds before_{0};
};

}  // namespace weir::cpu

// One processor of a network run: its blocks, and the instructions that it carries out on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/cpu/layout/kernels/network_attention.hpp"
#include "exec/cpu/layout/kernels/network_rows.hpp"
#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_figures.hpp"
#include "exec/cpu/layout/network_numbers.hpp"
#include "exec/cpu/layout/network_plan.hpp"

namespace weir::cpu {

class NetworkProcessor {
 public:
  NetworkProcessor(const layout::Network& network, const layout::NetworkLayout& layout,
                   const NetworkPlan& plan, Board& board, int processor, std::uint64_t seed);

  void step();
  [[nodiscard]] double held_bytes() const { return numbers_.bytes(); }
  [[nodiscard]] const NetworkCounts& counts() const { return counts_; }
  [[nodiscard]] const NetworkTimes& times() const { return times_; }
  [[nodiscard]] const std::vector<NodeBlocks>& nodes() const { return nodes_; }
  [[nodiscard]] const MeshPlace& place() const { return place_; }

 private:
  void give_values(std::size_t node);
  void forward(std::size_t node);
  void backward(std::size_t node);
  void hand_on(std::size_t node);
  void reduce_weights();
  void reduce_weight(layout::Axes partial, layout::Axes sharers, std::vector<float>& numbers);
  void update(int weight, layout::Axes sharers);
  void carry_out(const layout::Instruction& instruction, std::int64_t time);

  void compute(const layout::Operation& o, std::int64_t time);
  // c += a b; `counted`: so many multiply-adds of a product, which is timed as such.
  void multiply(const NamedBlock& a, const NamedBlock& b, const NamedBlock& c,
                std::optional<double> counted);
  void factors(const layout::Operation& o, const NamedBlock& a, const NamedBlock& b,
               const NamedBlock& c);
  void attend(const layout::Operation& o, std::int64_t time);
  void attention_gradient(const layout::Operation& o, int tensor, const NamedBlock& out,
                          const NamedBlock& in, std::int64_t time);
  void take_step(const layout::Operation& o, std::int64_t time);
  void stack(const layout::Operation& o);
  void move(const layout::Instruction& instruction, std::int64_t time);
  void gradient(const layout::Instruction& instruction, std::int64_t time);
  void row_gradient(const layout::Operation& o, int tensor, const NamedBlock& out,
                    const NamedBlock& in, std::int64_t time);
  void stack_gradient(const layout::Instruction& instruction);
  void move_gradient(const layout::Instruction& instruction, std::int64_t time);
  void all_reduce(layout::Axes axes, std::vector<float>& numbers,
                  Reduction reduction = Reduction::sum);
  enum class Way : std::uint8_t { out, home };
  void relocate(const layout::Operation& o, Way way, layout::Axes pending, float* in, float* out);

  [[nodiscard]] std::size_t slot(int tensor, std::int64_t time) const;
  [[nodiscard]] NamedBlock value(int tensor, std::int64_t time);
  // All parts as one: of those that are no partial sums where others are, one processor's counts.
  GradientPart& combined(int tensor, std::int64_t time);
  GradientPart& part_of(int tensor, std::int64_t time, layout::Axes partial, int operation);
  [[nodiscard]] RowWork rows(const layout::Operation& o, const layout::NetworkTensor& tensor);
  [[nodiscard]] NormBlocks norm_blocks(const layout::Operation& o, std::int64_t time);
  [[nodiscard]] HeadTurn turn_of(const layout::Operation& o) const;
  // Of an attention's rows and keys: the shares, and behind them their gradients.
  struct Scores {
    NamedBlock shares, gradients;
  };
  [[nodiscard]] Scores scores_of(const layout::Operation& o, std::int64_t time);
  void lap(Seconds& to);

  const layout::Network& network_;
  const layout::NetworkLayout& layout_;
  const NetworkPlan& plan_;
  Board& board_;
  MeshPlace place_;
  NetworkNumbers numbers_;
  std::vector<NodeBlocks>& nodes_;               // theirs
  std::size_t node_ = 0;                         // the one that is carried out
  const layout::NetworkLayer* layer_ = nullptr;  // its layer
  NetworkCounts counts_;
  NetworkTimes times_;
  Seconds before_{0};
};

}  // namespace weir::cpu

// The walk that derives what a processor does of a layer: forward in the order of operations, then
// backward in the reverse order, so that every use of a tensor hands its gradient in before the
// operation that made the tensor is reached. exchanges.hpp says the rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/layer_share.hpp"
#include "plan/layout/network.hpp"
#include "plan/layout/travel.hpp"
#include "plan/words/indexed.hpp"

namespace weir::layout {

class LayerDerivation {
 public:
  LayerDerivation(const Network& network, const NetworkLayout& layout, const NetworkLayer& layer)
      : network_(network), layout_(layout), layer_(layer), states_(layer_.tensors.size()) {}
  // What is derived is written into `script` too.
  void record(std::vector<Instruction>& script) { script_ = &script; }
  LayerShare derive();

 private:
  struct State {
    int made_by = -1;
    Axes pending = 0;   // partial sums over these, forward
    Axes gradient = 0;  // the same of its gradient
    bool has_gradient = false;
    bool in_i = false;  // passes that read the gradient
    bool in_w = false;
    bool again_i = false, again_w = false;  // a move's, exchanged again in these already
  };

  // What all steps ask: sizes of blocks, who shares what, and what is written down.
  void note(const Instruction& instruction) {
    if (script_ != nullptr) script_->push_back(instruction);
  }
  [[nodiscard]] static bool moves(Act act) {
    return act == Act::move || act == Act::route || act == Act::back || act == Act::carry;
  }
  [[nodiscard]] const std::vector<int>& dims(int tensor) const {
    return layer_.tensors[at(tensor)].dimensions;
  }
  [[nodiscard]] State& state(int tensor) { return states_[at(tensor)]; }
  [[nodiscard]] bool is_weight(int tensor) const {
    return layout::is_weight(layer_.tensors[at(tensor)]);
  }
  [[nodiscard]] bool of_weight(int tensor);
  [[nodiscard]] double block(const std::vector<int>& dimensions) const {
    return block_elements(network_, layout_, dimensions);
  }
  [[nodiscard]] Axes axes(const std::vector<int>& dimensions) const {
    return axes_of(layout_, dimensions);
  }
  [[nodiscard]] Axes summed(const std::vector<int>& of, const std::vector<int>& kept) const;
  void exchange(Collective collective, Pass pass, Axes over, double elements, int tensor,
                bool gradient, bool fp32 = false);
  [[nodiscard]] std::int64_t steps() const { return network_.dimensions[at(layer_.time)].size; }
  [[nodiscard]] std::int64_t times_of(int tensor) const {
    return layout::times_of(network_, layer_, tensor);
  }
  [[nodiscard]] double work(const Operation& o) const;
  [[nodiscard]] double attention_work(const Operation& o) const;
  void make_whole(int tensor, Pass pass, Axes of = ~Axes{0});
  void make_gradient_whole(int tensor, Pass pass);
  [[nodiscard]] static Pass first_pass(const State& s) { return s.in_i ? Pass::I : Pass::W; }
  [[nodiscard]] double rows(const Operation& operation, int tensor) const;
  [[nodiscard]] static double statistics(Act act) { return act == Act::norm ? 2 : 1; }

  // What travels is exchanged; returns what is a partial sum still.
  Axes relocate(const Ends& ends, Axes pending, Pass pass, int tensor, bool gradient);
  [[nodiscard]] Ends ends(const Operation& o, bool home) const;

  void find_gradients();
  void forward(const Operation& o);
  void forward_carry(const Operation& o);
  void forward_product(const Operation& o);
  void forward_sum(const Operation& o);
  void forward_rows(const Operation& o);

  void find_passes();

  void backward(const Operation& o);
  void backward_product(const Operation& o);
  void backward_sum(const Operation& o);
  void backward_gather(const Operation& o);
  void backward_move(const Operation& o);
  void backward_carry(const Operation& o);
  void backward_norm(const Operation& o);
  void backward_attention(const Operation& o);

  // Gradients of weights, and what the backward reads of F.
  void hand_in(int tensor, Axes partial);
  void reduce_weight(int tensor, Axes partial);
  void hold(const NetworkTensor& weight);
  void gather_updated();
  void keep(int tensor, bool for_w);
  void keep_statistics(int tensor, double elements) {
    share_.kept.push_back({tensor, all_steps(tensor, elements), true, false});
  }
  [[nodiscard]] double all_steps(int tensor, double elements) const {
    return elements * static_cast<double>(times_of(tensor));
  }

  const Network& network_;
  const NetworkLayout& layout_;
  const NetworkLayer& layer_;
  std::vector<State> states_;
  std::vector<Instruction>* script_ = nullptr;
  int operation_ = 0;     // the one that is derived
  bool carries_ = false;  // what is exchanged goes to the next step: one time less
  LayerShare share_;
};

}  // namespace weir::layout

// What a processor's share of a layer consists of: what it sends, keeps and computes, and the steps
// in which it does so. exchanges.hpp derives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/layout/network.hpp"
#include "plan/layout/travel.hpp"

namespace weir::layout {

enum class Pass : std::uint8_t { F, I, W, step };
inline constexpr Pass kPasses[] = {Pass::F, Pass::I, Pass::W, Pass::step};
[[nodiscard]] std::string_view to_string(Pass pass);

struct Exchange {
  Collective collective = Collective::all_reduce;
  Pass pass = Pass::F;
  Axes axes = 0;        // among the processors along these
  double elements = 0;  // what each brings; of an all-gather the gathered whole
  bool fp32 = false;    // statistics, and gradients of weights; else in the number format
  int tensor = 0;       // of the layer's
  bool gradient = false;
  std::int64_t times = 1;  // once for each step
};

struct Kept {
  int tensor = 0;
  double elements = 0;      // of all steps
  bool statistics = false;  // a norm's or an attention's own, of that tensor's rows: fp32
  bool until_w = false;     // else until I
  // Of a layer's repetitions the first may read what another layer keeps, and all of them the same.
  bool first = true, others = true;
  [[nodiscard]] double copies(std::int64_t repeat) const {
    return (first ? 1.0 : 0.0) + (others ? static_cast<double>(repeat - 1) : 0.0);
  }
};

// Weights that a processor holds, by the mesh dimensions among which what the optimizer keeps of
// them is divided.
struct HeldWeights {
  Axes sharers = 0;
  double elements = 0;
};

struct LayerShare {
  std::vector<Exchange> exchanges;  // in the order of the passes' operations
  std::vector<Kept> kept;           // each tensor once, and its statistics once
  double multiply_adds[3] = {};     // of products in F, I and W
  double weights = 0;               // elements; tied ones none
  std::vector<HeldWeights> held;    // the same, ascending in sharers
};

// What a processor does in one step of training, in order: what layer_share prices, to be carried
// out (exec/cpu/layout/network_run). Of a layer with steps over time, instructions on a step's
// tensors are repeated for each.
struct Instruction {
  enum class Do : std::uint8_t {
    forward,         // of the operation; `axes`: the output is a partial sum over these
    make_whole,      // the tensor, over `axes`
    move,            // the operation's input to its output; of the input, `axes` are partial sums
    gradient,        // of the operation's `tensor`, an input: partial over `axes`
    whole_gradient,  // of the tensor, over `axes`
    move_gradient    // home from the output, whose gradient is partial over `axes`
  } what = Do::forward;
  int operation = 0;
  int tensor = 0;
  Axes axes = 0;
  Axes left = 0;       // of a move: what is a partial sum behind it still; a state is made whole
  bool again = false;  // a move whose result there is already, or was
};

}  // namespace weir::layout

// What a processor sends, computes and keeps of a layer under a layout, forward and backward, all
// derived. No rule below knows what a batch, a head or an expert is:
//
//   A product whose summed dimension is split gives each processor a partial sum. What is linear in
//   it may follow as it is (a move, a route, a weighing, a sum with another partial sum); before
//   anything else the sum is made whole: an all-reduce. Moved to where one of its dimensions is
//   split over the same mesh dimension, it is reduce-scattered instead.
//   A move gathers what becomes whole (all-gather), leaves out what becomes split (a slice: free),
//   and exchanges what becomes split elsewhere (all-to-all). Backwards it is the move home.
//   Gradients of one tensor are added up before their sum is made whole; those of weights once a
//   step, after its last micro-batch.
//   A softmax over a split dimension all-reduces its maximum and its sum, a norm its statistics,
//   the loss its maximum, its sum and the target's logit.
//   Steps exchange the same each time; to the next step a partial sum does not go. A state's
//   gradient goes home to the step before as by a move, and W does not ask for it again.
//   A value that several layers read is kept once; each makes its part of the gradient whole.
//   F keeps what the backward reads: factors of products, inputs of functions and norms, outputs of
//   softmax. What a move or a choice made is not kept but made again from what is (Korthikanti et
//   al. 2022, section 4.2.2: the shard is kept and gathered again), in each pass that reads it.
//   Weights that are kept under another dimension than they are read under (ZeRO's shards) are
//   moved in F and again in I; W takes their gradients home, in fp32.
//   Where processors share what the optimizer keeps of a weight, its gradient is reduce-scattered
//   instead (once a step, or in W where they share its sums too), and when each has made its part
//   of the new weight this is gathered.
//
// I is the gradient for values, W that for weights, each a pass of its own (docs/design.md 3).
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

// Of one repetition of layer `index`. Precondition: well formed and legal.
[[nodiscard]] LayerShare layer_share(const Network& network, const NetworkLayout& layout,
                                     std::size_t index);

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
[[nodiscard]] std::vector<Instruction> layer_script(const Network& network,
                                                    const NetworkLayout& layout, std::size_t index);

// Whether F keeps a value that is given to a layer, whatever the layout.
[[nodiscard]] bool keeps_given(const Network& network, const NetworkLayer& layer, int tensor);

}  // namespace weir::layout

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

#include <cstddef>
#include <vector>

#include "plan/layout/layer_share.hpp"
#include "plan/layout/network.hpp"

namespace weir::layout {

// Of one repetition of layer `index`. Precondition: well formed and legal.
[[nodiscard]] LayerShare layer_share(const Network& network, const NetworkLayout& layout,
                                     std::size_t index);

// The same, as steps to carry out.
[[nodiscard]] std::vector<Instruction> layer_script(const Network& network,
                                                    const NetworkLayout& layout, std::size_t index);

// Whether F keeps a value that is given to a layer, whatever the layout.
[[nodiscard]] bool keeps_given(const Network& network, const NetworkLayer& layer, int tensor);

}  // namespace weir::layout

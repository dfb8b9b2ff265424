// What a layer keeps in memory and for how long: the contract between the cost model, which counts
// the bytes, and the executor, which allocates them. Both walk the LayerTensors of the same shapes,
// so a forecast peak and a measured one can only differ if one of them breaks the contract.
//
// Life of tensors inside one stage action, layer by layer (b = micro-batch size):
//   F, layers ascending    alloc output, saved, workspace_f; run; free workspace_f; free the input
//                          unless the layer saves it.
//   I, layers descending   alloc input gradient, carried, workspace_i; run; free workspace_i and
//                          what is saved until I only; free the output gradient unless W needs it.
//   W, layers descending   alloc workspace_w; run; free workspace_w and all that is left.
//   B                      for each layer descending: its I, then its W.
// Where a stage takes skips that go directly (plan/job/direct_skips), forwards or their gradients
// backwards, before its layers: alloc the row; copy the messages into it; free them. Where it sends
// some, behind its layers: alloc the messages; copy the row into them; free it.
//   R                      F again from the stage's kept input, without a message at its end (the
//                          last output is freed).
// What re-materialisation changes, for the micro-batches that it treats (plan/job/recompute):
//   stage    F               free all that it saved, and every input but the stage's own.
//   full     F, such a layer free what it saved; keep its input, whether the layer saves it or not.
//            I or B          directly before such a layer's I, its F again from the kept input:
//            alloc
//                            output, saved, workspace_f; run; free workspace_f and the output; free
//                            the input unless the layer saves it.
// Of frozen weights F keeps nothing that only their gradients read, and I nothing for them; a layer
// before the first that is trained keeps nothing at all (plan/model/treatment).
// Every tensor is rounded up to 64 bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/model.hpp"
#include "plan/model/split.hpp"
#include "plan/model/tensor_list.hpp"
#include "plan/words/dtype.hpp"

namespace weir {

// Tensors of one layer as this project's executor lays them out, for sequences of `seq_length`
// tokens. Split, those of one device: widths divided by tp, tokens by cp, and what tp leaves whole
// (the layer's input and output, norms and what they feed) by tp too under sequence parallelism,
// which then gathers it into workspace. Precondition: seq_length >= 1 for layers with a shape; the
// layer can be split (plan/model/split).
[[nodiscard]] LayerTensors layer_tensors(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                         const Split& split = {});

// Of a layer with adapters, what these keep from F to W beside what the layer does: what they read,
// as all devices of tp have it where sequence parallelism gathers it, and what A makes of it.
[[nodiscard]] std::vector<KeptTensor> kept_by_adapters(const Layer& layer, std::int64_t seq_length,
                                                       Dtype dtype, const Split& split = {});

// Of a block that predicts a further token, what it keeps beside what the block does: what its
// norms read, what they give to the projection, and what that makes.
[[nodiscard]] std::vector<KeptTensor> kept_by_prediction(const Layer& layer,
                                                         std::int64_t seq_length, Dtype dtype,
                                                         const Split& split = {});

}  // namespace weir

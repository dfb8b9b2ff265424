// Where a device of tensor parallelism has its numbers in a layer's undivided tensors, as Megatron
// cuts them (Shoeybi et al. 2019, section 3): products that begin a part of a block by their rows,
// queries, keys, values and the halves of a gated MLP each by itself; those that end one by their
// columns; a vocabulary by its rows, the last device's part filled up with zeros. What a device
// holds of them is plan/model/split's shard; files hold them undivided.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/training/parameter_state.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/model.hpp"

namespace weir {

struct TensorPlace {
  int place = 0;
  int count = 1;  // the plan's tp
};

// `count` elements from `whole` on of the undivided tensor, row-major, are those from `part` on of
// the device's.
struct ShardPiece {
  std::int64_t whole = 0;
  std::int64_t part = 0;
  std::int64_t count = 0;
  bool operator==(const ShardPiece&) const = default;
};

// Of tensor `tensor` of the undivided layer's parameters. False: each device has all of it.
[[nodiscard]] bool is_divided(const Layer& layer, int tensor);
// Of a tensor that each device has all of: whether its gradient there is that of the device's heads
// alone, or, where devices divide rows too, of its rows, so that the devices' gradients add up to
// it: the gains of norms of heads, and with `divides_rows` gains and shifts of all norms.
[[nodiscard]] bool is_partial(const Layer& layer, int tensor, bool divides_rows);
// Precondition: it is divided.
[[nodiscard]] std::vector<ShardPiece> shard_pieces(const Layer& layer, int tensor,
                                                   const TensorPlace& at);

// From a device's part into the undivided tensor.
void put_shard(std::span<const ShardPiece> pieces, std::span<const float> part,
               std::span<float> whole);

// The device's parts of what `whole` gives for the undivided plan, which outlives it.
[[nodiscard]] StateSource shards_of(const ResolvedPlan& undivided, StateSource whole,
                                    const TensorPlace& at);

// The plan without its tensor parallelism: as its files are.
[[nodiscard]] ResolvedPlan undivided(const ResolvedPlan& loaded);

// Layers [range) of a model as one of the plan's devices computes them.
[[nodiscard]] std::vector<Layer> device_layers(const ResolvedPlan& loaded, const LayerRange& range);

}  // namespace weir

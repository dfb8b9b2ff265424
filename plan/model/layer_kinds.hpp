// What each kind of layer says of itself, one file a kind: learned numbers, tensors, FLOPs, its
// part under tensor parallelism, and the words of its work in files of costs. A kind is a row of
// the table `LayerShape` (plan/model/layer_shape) and the five functions below; who asks a layer
// visits the table (plan/model/model, layer_tensors, split; costmodel/layers), so a kind that lacks
// one does not compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/model/layer_shape.hpp"
#include "plan/model/tensor_list.hpp"
#include "plan/words/units.hpp"

namespace weir::kinds {

// A sample's tokens on one device of a split, and the size of a number.
struct DeviceTokens {
  std::int64_t s;        // of this device: under cp its share
  std::int64_t keys;     // tokens attended to: the whole sequence
  std::int64_t rows;     // tokens of what tp does not split
  std::int64_t element;  // bytes
};

// parameter_count: learned numbers, of a tied head without its matrix.
// tensors: on one device of a split, sizes per sample (plan/model/layer_tensors). Legend of the
//   sources: s tokens a sample, h hidden, f feed-forward width, a heads, V vocabulary. Dropout
//   masks are never kept: they are drawn again from their counters.
// forward_flops: matrix products, a multiply-add counting two (costmodel/layers/layer_math).
// shard: one device's part under tensor parallelism (plan/model/split).
// work_key: every field that decides the layer's work, in words (costmodel/layers/layer_key).

// plan/model/layer_embedding.cpp
[[nodiscard]] std::int64_t parameter_count(const EmbeddingShape& shape);
[[nodiscard]] LayerTensors tensors(const EmbeddingShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const EmbeddingShape& shape, std::int64_t seq_length);
[[nodiscard]] EmbeddingShape shard(EmbeddingShape shape, int tp);
[[nodiscard]] std::string work_key(const EmbeddingShape& shape);

// plan/model/layer_transformer.cpp, and transformer_tensors.cpp
[[nodiscard]] std::int64_t parameter_count(const TransformerShape& shape);
// Numbers of a token that the product before attention's core makes of it.
[[nodiscard]] std::int64_t projected_width(const TransformerShape& shape);
// Of the norms of queries and of keys.
[[nodiscard]] std::int64_t query_gains(const TransformerShape& shape);
[[nodiscard]] std::int64_t key_gains(const TransformerShape& shape);
[[nodiscard]] LayerTensors tensors(const TransformerShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const TransformerShape& shape, std::int64_t seq_length);
[[nodiscard]] TransformerShape shard(TransformerShape shape, int tp);
[[nodiscard]] std::string work_key(const TransformerShape& shape);
// What one that predicts keeps beside what the block does (plan/model/layer_shape, Prediction).
[[nodiscard]] std::vector<KeptTensor> kept_by_prediction(const TransformerShape& shape,
                                                         const DeviceTokens& tokens);

// plan/model/layer_norm.cpp
[[nodiscard]] std::int64_t parameter_count(const NormShape& shape);
[[nodiscard]] LayerTensors tensors(const NormShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const NormShape& shape, std::int64_t seq_length);
[[nodiscard]] NormShape shard(NormShape shape, int tp);
[[nodiscard]] std::string work_key(const NormShape& shape);

// plan/model/layer_head.cpp
[[nodiscard]] std::int64_t parameter_count(const HeadShape& shape);
[[nodiscard]] LayerTensors tensors(const HeadShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const HeadShape& shape, std::int64_t seq_length);
[[nodiscard]] HeadShape shard(HeadShape shape, int tp);
[[nodiscard]] std::string work_key(const HeadShape& shape);

// plan/model/layer_cell.cpp
[[nodiscard]] std::int64_t parameter_count(const CellShape& shape);
[[nodiscard]] LayerTensors tensors(const CellShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const CellShape& shape, std::int64_t seq_length);
[[nodiscard]] CellShape shard(CellShape shape, int tp);
[[nodiscard]] std::string work_key(const CellShape& shape);

// plan/model/layer_timed.cpp
[[nodiscard]] std::int64_t parameter_count(const TimedShape& shape);
[[nodiscard]] LayerTensors tensors(const TimedShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const TimedShape& shape, std::int64_t seq_length);
[[nodiscard]] TimedShape shard(TimedShape shape, int tp);
[[nodiscard]] std::string work_key(const TimedShape& shape);

// plan/model/layer_sized.cpp
[[nodiscard]] std::int64_t parameter_count(const SizedShape& shape);
[[nodiscard]] LayerTensors tensors(const SizedShape& shape, const DeviceTokens& tokens);
[[nodiscard]] Flops forward_flops(const SizedShape& shape, std::int64_t seq_length);
[[nodiscard]] SizedShape shard(SizedShape shape, int tp);
[[nodiscard]] std::string work_key(const SizedShape& shape);

}  // namespace weir::kinds

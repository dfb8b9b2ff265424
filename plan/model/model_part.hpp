// One device's part of a model: what it holds of each layer, what a boundary after a layer must
// carry, and which parameters are uses of one weight. Derived once for a model, a sequence length,
// a number format and a split; all that allocates, counts or sends reads it here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/model/layer_tensors.hpp"
#include "plan/model/model.hpp"
#include "plan/model/split.hpp"
#include "plan/words/dtype.hpp"

namespace weir {

// A parameter tensor by its place: the layer in the model, the tensor among that layer's.
struct ParameterId {
  int layer = 0;
  int tensor = 0;
  auto operator<=>(const ParameterId&) const = default;
};

struct LayerPart {
  LayerTensors tensors;
  std::int64_t parameters = 0;         // numbers in tensors.parameters
  std::int64_t expert_parameters = 0;  // of them, of experts that expert parallelism shares
  // Of both, those that are trained.
  std::int64_t trained_parameters = 0;
  std::int64_t trained_expert_parameters = 0;
  std::int64_t trained_products = 0;  // and those of a block's matrices that experts do not share
  std::int64_t products = 0;          // of a block's matrices, trained or not, and experts' too
  // What full re-materialisation rebuilds: every layer but embeddings, norms between stacks and
  // heads, which keep next to nothing beside their input or are done with at once.
  bool block = false;
  bool backward = true;  // none where nothing before it, nor in it, is trained
  // What a boundary placed after the layer must carry, a sample: its output, and what earlier
  // layers send past it by skips, handed on from stage to stage. Whole outputs that go to several
  // layers cross once. Within a stack of T5's the bias of the attention scores, which its first
  // block makes, crosses too.
  std::int64_t crossing_bytes = 0;
};

struct ModelPart {
  // Layers that are alike in all of this are one, but for some that lie far apart
  // (plan/model/alike_layers): a model of thousands has a handful.
  std::vector<LayerPart> kinds;
  std::vector<int> kind;   // by layer
  std::vector<int> first;  // by kind, its first layer
  // Layers of one kind that follow each other.
  std::vector<LayerRange> runs;
  // The uses of each weight that has several, in layer order.
  std::vector<std::vector<ParameterId>> ties;

  [[nodiscard]] int size() const { return static_cast<int>(kind.size()); }
  [[nodiscard]] int kind_of(int layer) const { return kind[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] const LayerPart& layer(int index) const {
    return kinds[static_cast<std::size_t>(kind_of(index))];
  }
  [[nodiscard]] const ParameterTensor& parameter(ParameterId id) const {
    return layer(id.layer).tensors.parameters[static_cast<std::size_t>(id.tensor)];
  }
  // The weight that a parameter is a use of, by the first use in layer order; an untied parameter
  // is its own.
  [[nodiscard]] ParameterId weight(ParameterId use) const;
};

// Whether it is a matrix whose products may be in 8 bits.
[[nodiscard]] bool multiplies(const LayerPart& layer, const ParameterTensor& tensor);

// Precondition: as layer_tensors'.
[[nodiscard]] ModelPart model_part(const Model& model, std::int64_t seq_length, Dtype dtype,
                                   const Split& split = {});

}  // namespace weir

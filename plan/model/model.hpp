// A model is a sequence of layers; a stage boundary may fall between any two of them.
//
// A layer either has a shape (embedding, transformer block, norm, head), from which FLOPs, bytes
// and kernels follow, or it is *sized*: it says its own FLOPs and bytes, or *timed*: it says its
// own times and bytes, and nothing else is known of it. Layer kinds are values, not classes:
// plan/model/layer_shape has their table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/model/layer_shape.hpp"
#include "plan/model/treatment.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct Layer {
  std::string name;
  LayerShape shape;
  std::string label;  // what a cell, timed or sized layer calls its kind ("conv"); empty otherwise
  Treatment treated = {};  // by a plan; no part of a model's file
};

// First and one-past-last of some layers of a model.
struct LayerRange {
  int first = 0;
  int last = 0;
  [[nodiscard]] int size() const { return last - first; }
  [[nodiscard]] bool has(int layer) const { return layer >= first && layer < last; }
  bool operator==(const LayerRange&) const = default;
};

// An edge from an earlier layer's output to a later layer that is not its successor (U-Net, ResNet,
// T5's decoder).
struct Skip {
  std::int32_t from = 0;       // layer index
  std::int32_t to = 0;         // layer index, > from + 1
  std::optional<Bytes> bytes;  // per sample, the part of the output that goes on: a tensor of its
                               // own; none: all of it
};

// A map that a layer keeps behind its output, in one row of numbers a sample, for a later one that
// takes it off; the layers in between hand it on (plan/model/cnn/unet_blocks). Who made the latest
// is behind the output first, and taken first: [output | latest | ... | first].
struct Stash {
  std::int32_t from = 0, to = 0;  // layer indices, to > from
  std::int64_t numbers = 0;       // of a sample
};

struct Model {
  std::string name;
  std::string family;  // "gpt2", ...; "layers" for a layer list, "timed" for layers.csv, "cnn"
  std::vector<Layer> layers;
  std::vector<Skip> skips;
  std::vector<Stash> stashes;        // ascending by `from`; skips that are executed
  std::int64_t seq_length = 0;       // default tokens a sample; 0 where samples are not sequences
  std::int64_t max_positions = 0;    // longest sequence its file speaks of; 0: of none
  bool longer = false;               // longer ones are accepted: turned positions have no end
  double initializer_range = 0.02;   // standard deviation of initial weights
  int prediction_layers = 0;         // that its file has and a plan may train; none among `layers`
  std::vector<std::string> remarks;  // what of the file is left out, a line each
  int ignored_keys = 0;              // keys of a Hugging Face config that mean nothing here
};

// Why no block behind the model's norm can predict further tokens; nullopt: some can.
[[nodiscard]] std::optional<std::string> cannot_predict(const Model& model);
// So many such blocks, like the model's last one, in front of the head, which has a loss for each;
// those that stand there go. Does nothing else where cannot_predict.
void set_prediction(Model& model, int layers);
// Why a vocabulary cannot be divided over the ranks of a pipeline; nullopt: it can.
[[nodiscard]] std::optional<std::string> cannot_divide_vocabulary(const Model& model);
// What each of so many ranks has of the vocabulary, as two layers behind all others: of the token
// table and of the head's matrix a shard of equally many rows, filled up. What the embedding does
// beside looking up stays its first layer. 1: as it was. Does nothing else where
// cannot_divide_vocabulary.
void set_vocabulary(Model& model, int ranks);
// The first so many layers are those that stages divide: all but the shards of a vocabulary.
[[nodiscard]] int staged_layers(const Model& model);
// All blocks compute their attention like this.
void set_attention(Model& model, AttentionKind kind);
// Which weights are trained: with adapters those alone, else all but these layers'.
void set_trained(Model& model, const Adapters& adapters, const std::vector<LayerRange>& frozen);
// How all blocks find the scales of their products in 8 bits.
void set_fp8(Model& model, Fp8Recipe recipe);

// "embedding", "transformer", "norm", "head", or a cell's, timed or sized layer's own label.
[[nodiscard]] std::string kind_name(const Layer& layer);

// Learned numbers of one layer; a tied head counts none for its matrix, its embedding has it.
[[nodiscard]] std::int64_t parameter_count(const Layer& layer);
// Learned numbers of all layers, each tied weight once.
[[nodiscard]] std::int64_t parameter_count(const Model& model);
// Whether any of its layers has more than one.
[[nodiscard]] bool has_experts(const Model& model);

}  // namespace weir

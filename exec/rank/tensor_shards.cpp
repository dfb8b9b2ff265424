// Bands of rows, or columns, of each tensor that is divided.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/tensor_shards.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <variant>

#include "exec/rank/block_places.hpp"
#include "plan/model/split.hpp"

namespace weir {
namespace {

using block_places::WeightPlaces;

// Rows of `width` numbers in bands, each divided by itself; or so many rows whose width is.
struct Division {
  std::vector<std::int64_t> bands;
  std::int64_t width = 1;
  bool columns = false;
};

struct DivisionOf {
  int tensor;

  std::optional<Division> operator()(const TransformerShape& b) const {
    const WeightPlaces at(b);
    const std::int64_t q = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
    const std::vector<std::int64_t> up(b.gated ? 2 : 1, b.ffn);
    if (tensor == at.qkv_w) return Division{{q, kv, kv}, b.hidden};
    if (tensor == at.qkv_b) return Division{{q, kv, kv}};
    if (tensor == at.up_w) return Division{up, b.hidden};
    if (tensor == at.up_b) return Division{up};
    if (tensor == at.out_w) return Division{{b.hidden}, q, true};
    if (tensor == at.down_w) return Division{{b.hidden}, b.ffn, true};
    return std::nullopt;
  }
  std::optional<Division> operator()(const EmbeddingShape& e) const {
    if (tensor > 0) return std::nullopt;  // positions
    return Division{{e.vocabulary}, e.hidden};
  }
  std::optional<Division> operator()(const HeadShape& h) const {
    return Division{{h.vocabulary}, tensor == 0 ? h.hidden : 1};  // its matrix, its bias
  }
  template <class Shape>
  std::optional<Division> operator()(const Shape&) const {
    return std::nullopt;
  }
};

std::optional<Division> division_of(const Layer& layer, int tensor) {
  return std::visit(DivisionOf{tensor}, layer.shape);
}

// A tensor that the device has all of is one piece.
std::vector<float> cut_out(const std::vector<float>& whole, std::span<const ShardPiece> pieces,
                           std::int64_t elements) {
  std::vector<float> part(static_cast<std::size_t>(elements), 0.0F);
  for (const ShardPiece& piece : pieces)
    std::copy_n(whole.begin() + piece.whole, piece.count, part.begin() + piece.part);
  return part;
}

}  // namespace

bool is_divided(const Layer& layer, int tensor) { return division_of(layer, tensor).has_value(); }

bool is_partial(const Layer& layer, int tensor, bool divides_rows) {
  if (std::holds_alternative<NormShape>(layer.shape)) return divides_rows;
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return false;
  const WeightPlaces at(*block);
  if (tensor == at.query_gain || tensor == at.key_gain) return block->qk_norm;
  return divides_rows && (tensor == at.norm1_gain || tensor == at.norm1_shift ||
                          tensor == at.norm2_gain || tensor == at.norm2_shift);
}

std::vector<ShardPiece> shard_pieces(const Layer& layer, int tensor, const TensorPlace& at) {
  const std::optional<Division> division = division_of(layer, tensor);
  assert(division && "every device has all of it");
  std::vector<ShardPiece> pieces;
  // Columns of each row: as many pieces as rows.
  if (division->columns) {
    const std::int64_t share = division->width / at.count;
    for (std::int64_t row = 0; row < division->bands.front(); ++row)
      pieces.push_back({row * division->width + at.place * share, row * share, share});
    return pieces;
  }
  std::int64_t whole = 0, part = 0;  // rows before the band
  for (const std::int64_t rows : division->bands) {
    // Rounded up, so that the last device may have less, or nothing.
    const std::int64_t share = ceil_div(rows, at.count);
    const std::int64_t first = std::min(rows, share * at.place);
    pieces.push_back({(whole + first) * division->width, part * division->width,
                      std::min(share, rows - first) * division->width});
    // Bands are divided one by one: queries, keys and values each give every device its heads.
    whole += rows;
    part += share;
  }
  return pieces;
}

void put_shard(std::span<const ShardPiece> pieces, std::span<const float> part,
               std::span<float> whole) {
  for (const ShardPiece& piece : pieces)
    std::copy_n(part.begin() + piece.part, piece.count, whole.begin() + piece.whole);
}

StateSource shards_of(const ResolvedPlan& undivided, StateSource whole, const TensorPlace& at) {
  return [&undivided, whole = std::move(whole), at](ParameterId weight,
                                                    const ParameterTensor& parameter) {
    ParameterState state = whole(weight, undivided.part->parameter(weight));
    const Layer& layer = undivided.model.layers[static_cast<std::size_t>(weight.layer)];
    if (!is_divided(layer, weight.tensor)) return state;
    const std::vector<ShardPiece> pieces = shard_pieces(layer, weight.tensor, at);
    for (std::vector<float>* values : {&state.values, &state.state1, &state.state2}) {
      if (!values->empty()) *values = cut_out(*values, pieces, parameter.elements());
    }
    return state;
  };
}

ResolvedPlan undivided(const ResolvedPlan& loaded) {
  Plan plan = loaded.plan;
  plan.tp = 1;
  plan.sequence_parallel = false;
  return derive(std::move(plan), loaded.model, loaded.schedule);
}

std::vector<Layer> device_layers(const ResolvedPlan& loaded, const LayerRange& range) {
  std::vector<Layer> layers(loaded.layers().begin() + range.first,
                            loaded.layers().begin() + range.last);
  if (loaded.plan.tp == 1) return layers;
  for (Layer& layer : layers) layer.shape = shard(layer.shape, loaded.plan.split());
  return layers;
}

}  // namespace weir

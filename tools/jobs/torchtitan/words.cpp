// torchtitan's own names: of schedules, which are PyTorch's, and of the models whose sizes it
// knows.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/words.hpp"

#include <array>
#include <string>
#include <utility>

#include "plan/model/readers/layer_list.hpp"

namespace weir {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSchedules{
    {{"1F1B", "1f1b"},
     {"GPipe", "gpipe"},
     {"Interleaved1F1B", "interleaved-1f1b"},
     {"InterleavedZeroBubble", "interleaved-zb"},
     {"LoopedBFS", "looped-bfs"},
     {"ZBVZeroBubble", "zb-v"},
     {"DualPipeV", "dualpipev"}}};

struct Flavor {
  std::string_view name;
  std::int64_t hidden, blocks, heads, kv_heads, ffn;
  std::int64_t tokens = 128256;
  bool tied = false;  // the head's weight is the embedding's
};
constexpr std::array<Flavor, 6> kLlama3{{{"debugmodel", 256, 6, 16, 16, 768, 2048},
                                         {"1B", 2048, 16, 32, 8, 8192, 128256, true},
                                         {"3B", 3072, 28, 24, 8, 8192, 128256, true},
                                         {"8B", 4096, 32, 32, 8, 14336},
                                         {"70B", 8192, 80, 64, 8, 28672},
                                         {"405B", 16384, 126, 128, 8, 53248}}};

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

}  // namespace

std::string_view schedule_from_torch(std::string_view name) {
  for (const auto& [torch, ours] : kSchedules) {
    if (lower(torch) == lower(name)) return ours;
  }
  return "";
}

std::string_view schedule_to_torch(std::string_view name) {
  for (const auto& [torch, ours] : kSchedules) {
    if (ours == name) return torch;
  }
  return "";
}

// Of every flavour: models/llama3/__init__.py; scaled since version 0.2.
constexpr RotaryAngles kLlama3Angles{500000, RotaryScaling::llama3, 8, 1, 4, 8192};

std::optional<Decoder> torchtitan_llama3(std::string_view flavor) {
  for (const Flavor& f : kLlama3) {
    if (f.name != flavor) continue;
    Decoder d;
    d.embedding = {.vocabulary = f.tokens, .hidden = f.hidden};
    d.embedding.tied = f.tied;
    d.block = {.hidden = f.hidden,
               .heads = f.heads,
               .kv_heads = f.kv_heads,
               .head_dim = f.hidden / f.heads,
               .ffn = f.ffn};
    d.block.activation = Activation::silu;
    d.block.norm = NormKind::rms_norm;
    d.block.gated = d.block.rotary = true;
    d.block.angles = kLlama3Angles;
    d.block.qkv_bias = d.block.output_bias = d.block.mlp_bias = false;
    d.blocks = f.blocks;
    d.norm = {f.hidden, NormKind::rms_norm, d.block.norm_epsilon};
    d.head = {.vocabulary = f.tokens, .hidden = f.hidden};
    d.head.tied = f.tied;
    return d;
  }
  return std::nullopt;
}

std::string_view torchtitan_flavor(const Model& model) {
  auto decoder = as_decoder(model);
  if (!decoder) return "";
  decoder->block.angles = kLlama3Angles;  // change no size
  for (const Flavor& f : kLlama3) {
    if (f.hidden != decoder->block.hidden || f.blocks != decoder->blocks) continue;
    if (to_layer_list(decoder_model(*torchtitan_llama3(f.name), 1)) ==
        to_layer_list(decoder_model(*decoder, 1))) {
      return f.name;
    }
  }
  return "";
}

}  // namespace weir

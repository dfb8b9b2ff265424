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
//   R                      F again from the stage's kept input, without a message at its end (the
//                          last output is freed).
// What re-materialisation changes, for the micro-batches that it treats (plan/job/recompute):
//   stage    F               free all that it saved, and every input but the stage's own.
//   full     F, such a layer free what it saved; keep its input, whether the layer saves it or not.
//            I or B          directly before such a layer's I, its F again from the kept input:
//            alloc
//                            output, saved, workspace_f; run; free workspace_f and the output; free
//                            the input unless the layer saves it.
// Every tensor is rounded up to 64 bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/model/model.hpp"
#include "plan/model/split.hpp"
#include "plan/words/dtype.hpp"

namespace weir {

inline constexpr std::int64_t kTensorAlignment = 64;
[[nodiscard]] constexpr std::int64_t aligned_bytes(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Elements from one row of logits to the next. In 16 bits a row is padded to 16 bytes: a vocabulary
// such as GPT-2's 50257 would else leave every product that reads or writes them without aligned
// accesses. fp32 rows are packed.
[[nodiscard]] constexpr std::int64_t logits_row(std::int64_t vocabulary,
                                                std::int64_t bytes_per_element) {
  return bytes_per_element == 2 ? (vocabulary + 7) / 8 * 8 : vocabulary;
}

struct ParameterTensor {
  std::string name;                 // "mlp.up.weight"
  std::vector<std::int64_t> shape;  // row-major; [out, in] for matrices
  enum class Init : std::uint8_t { normal, residual_normal, zeros, ones } init = Init::normal;
  bool decays = false;    // weight decay applies (matrices and embeddings)
  std::string tied_with;  // group of copies, e.g. "token_embedding"; empty: not tied
  [[nodiscard]] std::int64_t elements() const;
};

enum class KeptUntil : std::uint8_t { I, W };

// A tensor kept between actions. Size for micro-batch size b: bytes_per_sample * b, then aligned.
struct KeptTensor {
  std::string name;
  std::int64_t bytes_per_sample = 0;
  KeptUntil until = KeptUntil::W;
  bool attention_core =
      false;  // what selective re-materialisation drops after F and makes again in the backward
};

struct LayerTensors {
  std::vector<ParameterTensor> parameters;
  std::int64_t output_bytes_per_sample = 0;       // 0 for a head: the loss stays where it is
  bool saves_input = false;                       // keeps its input after F ...
  KeptUntil input_until = KeptUntil::W;           // ... until the end of I or of W
  bool w_needs_output_gradient = false;           // keeps it from I to W in a split backward
  std::vector<KeptTensor> saved;                  // allocated by F
  std::vector<KeptTensor> carried;                // allocated by I, freed by W
  std::int64_t workspace_f_bytes_per_sample = 0;  // scratch of the layer's kernels, per action
  std::int64_t workspace_i_bytes_per_sample = 0;
  std::int64_t workspace_w_bytes_per_sample = 0;
};

// Tensors of one layer as this project's executor lays them out, for sequences of `seq_length`
// tokens. Split, those of one device: widths divided by tp, tokens by cp, and what tp leaves whole
// (the layer's input and output, norms and what they feed) by tp too under sequence parallelism,
// which then gathers it into workspace. Precondition: seq_length >= 1 for layers with a shape; the
// layer can be split (plan/model/split).
[[nodiscard]] LayerTensors layer_tensors(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                         const Split& split = {});

}  // namespace weir

// The words for a layer's tensors: its parameters, what it keeps between actions, what it works in.
// plan/model/layer_tensors says when each is allocated and freed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/model/block_modules.hpp"
#include "plan/model/layer_shape.hpp"

namespace weir {

inline constexpr std::int64_t kTensorAlignment = 64;
[[nodiscard]] constexpr std::int64_t aligned_bytes(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Elements from one row of logits to the next, and rows of the table they are made with. In 16 bits
// padded to 16 bytes: a vocabulary such as GPT-2's 50257 would else leave every product that reads
// or writes them without aligned accesses, or extents that the fast kernels take. fp32 is packed.
[[nodiscard]] constexpr std::int64_t logits_row(std::int64_t vocabulary,
                                                std::int64_t bytes_per_element) {
  return bytes_per_element == 2 ? (vocabulary + 7) / 8 * 8 : vocabulary;
}

// Rows of that table behind those of tokens.
[[nodiscard]] constexpr std::int64_t padded_rows(std::int64_t vocabulary,
                                                 std::int64_t bytes_per_element) {
  return logits_row(vocabulary, bytes_per_element) - vocabulary;
}

// Of a batch norm: the mean and the variance of each channel that a trained model uses, moved once
// a step by `momentum` towards those of the mini-batch, whose micro-batches add their sums up.
struct RunningStatistics {
  double momentum = 0.1;
  std::int64_t places = 1;  // of a sample, that a channel is averaged over
};

struct ParameterTensor {
  std::string name;                 // "mlp.up.weight"
  std::vector<std::int64_t> shape;  // row-major; [out, in] for matrices
  // he_normal: of convolutions (He et al., ICCV 2015, section 2.2, of the backward case); moments:
  // means of zero, then variances of one.
  enum class Init : std::uint8_t {
    normal,
    residual_normal,
    he_normal,
    zeros,
    ones,
    moments
  } init = Init::normal;
  bool decays = false;    // weight decay applies (matrices and embeddings)
  std::string tied_with;  // group of copies, e.g. "token_embedding"; empty: not tied
  bool expert = false;    // a device's part of experts that expert parallelism shares
  // Elements behind the last that are zero and stay so: whole rows, for products whose extents are
  // multiples of 16 bytes (logits_row). Memory of weight and gradient, and of nothing else.
  std::int64_t padding = 0;
  // Not learned: channels' running means, then their variances. No optimizer state.
  std::optional<RunningStatistics> running = {};
  bool frozen = false;  // stays as it is: no gradient, no optimizer state
  [[nodiscard]] std::int64_t elements() const;
};

enum class KeptUntil : std::uint8_t { I, W };

// A tensor kept between actions. Size for micro-batch size b: bytes_per_sample * b, then aligned.
struct KeptTensor {
  std::string name;
  std::int64_t bytes_per_sample = 0;
  KeptUntil until = KeptUntil::W;
  // Selective re-materialisation of any of these drops it after F and makes it again in the
  // backward.
  ModuleSet rebuilt_by = {};
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

// All of a layer's parameters beside each other, each with its padding and aligned: what replicas
// that divide weights or gradients (ZeRO) hold of a layer while it is whole.
[[nodiscard]] std::int64_t whole_bytes(const LayerTensors& tensors, std::int64_t element_bytes);

// A norm's gain, of ones, and with a layer norm its shift, of zeros.
void add_norm(LayerTensors& tensors, const std::string& name, std::int64_t hidden, NormKind kind);
[[nodiscard]] constexpr std::int64_t norm_parameters(NormKind kind, std::int64_t hidden) {
  return kind == NormKind::layer_norm ? 2 * hidden : hidden;
}
// A matrix, which decays, and its bias; shape[0] is the matrix' outputs.
void add_product(LayerTensors& tensors, const std::string& name, std::vector<std::int64_t> shape,
                 ParameterTensor::Init init, bool bias);

}  // namespace weir

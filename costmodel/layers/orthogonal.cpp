// Muon's products, matrix by matrix (docs/theory.md 5.13).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/orthogonal.hpp"

#include <algorithm>
#include <string_view>

#include "plan/model/block_matrices.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir {
namespace {

constexpr std::string_view kQueriesKeysValues = "attention.qkv.weight";

// In which the products are: torch's "medium" precision of fp32, which is bf16's.
Dtype of_products(const Device& device) {
  return device.peak_bf16.count() > 0 ? Dtype::bf16 : Dtype::fp32;
}

}  // namespace

std::vector<MatmulShape> orthogonalised(const Layer& layer, const Plan& plan) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return {};
  const LayerPart whole{.tensors = layer_tensors(layer, plan.seq_length, plan.dtype),
                        .block = true};
  std::vector<MatmulShape> matrices;
  const auto add = [&matrices](std::int64_t rows, std::int64_t columns, std::int64_t count) {
    matrices.push_back({std::min(rows, columns), std::max(rows, columns), 0, count});
  };
  for (const ParameterTensor& tensor : whole.tensors.parameters) {
    if (!is_orthogonalised(whole, tensor)) continue;
    const std::int64_t rows = tensor.shape[tensor.shape.size() - 2], columns = tensor.shape.back();
    if (tensor.name == kQueriesKeysValues) {
      add(block->heads * block->head_dim, columns, 1);
      add(block->kv_heads * block->head_dim, columns, 2);
    } else {
      add(rows, columns, tensor.shape.size() > 2 ? tensor.shape.front() / plan.ep : 1);
    }
  }
  return matrices;
}

Flops orthogonal_flops(const MatmulShape& matrix, int steps) {
  const auto m = static_cast<double>(matrix.m), n = static_cast<double>(matrix.n);
  return Flops(steps * static_cast<double>(matrix.batch) * (4 * m * m * n + 2 * m * m * m));
}

Seconds orthogonal_time(const MatmulShape& matrix, int steps, const Device& device) {
  const Dtype dtype = of_products(device);
  // Of a device whose kernels are not known, at its peak: the least it can take.
  if (!device.kernels) return orthogonal_flops(matrix, steps) / peak_rate(device, dtype);
  const auto [m, n, k, batch] = matrix;
  const Seconds step = matmul_time({m, m, n, batch}, device, dtype) +
                       matmul_time({m, m, m, batch}, device, dtype) +
                       matmul_time({m, n, m, batch}, device, dtype);
  // One after the other, each by launches of its own: a step's three products, and around them the
  // decay, two moves of the momentum, its norm, that norm's least, a division, the cast to 16 bits
  // and back, the scale and the addition to the weight.
  constexpr double kProducts = 3, kAround = 10;
  const double launches = static_cast<double>(batch) * (kProducts * steps + kAround);
  return std::max(step * static_cast<double>(steps), device.kernels->launch * launches);
}

}  // namespace weir

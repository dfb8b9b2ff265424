// Muon's update of a block's matrices: how long the products take that make their momentum nearly
// orthogonal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "costmodel/layers/kernel_rates.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"

namespace weir {

// Those of one layer on a device, as they are made orthogonal: whole, as all devices of tp have
// them gathered (Megatron's --muon-tp-mode duplicated), queries, keys and values each for itself
// (--muon-split-qkv), of experts the device's own. k is not used.
[[nodiscard]] std::vector<MatmulShape> orthogonalised(const Layer& layer, const Plan& plan);

// Of one m x n, m the smaller: each step of Newton and Schulz has X X', its square and their
// product with X: 4 m^2 n + 2 m^3 FLOPs (Jordan et al., "Muon", 2024), in bf16 where the device has
// it.
[[nodiscard]] Flops orthogonal_flops(const MatmulShape& matrix, int steps);
// No less than the host needs to launch its kernels, each matrix by itself
// (NVIDIA-NeMo/Emerging-Optimizers@fd77292, orthogonalized_optimizers/muon_utils.py: newton_schulz,
// orthogonalized_optimizer.py: step).
[[nodiscard]] Seconds orthogonal_time(const MatmulShape& matrix, int steps, const Device& device);

}  // namespace weir

// Rough costs from datasheet rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/model/model.hpp"
#include "plan/model/split.hpp"

namespace weir {

// Costs of a known device before anything was measured: kernel by kernel where the cluster says how
// well its GPU runs them (Device::kernels), also of layers divided as in `splits`; otherwise whole
// layers at rough shares of its rates.
[[nodiscard]] Costs builtin_costs(const Model& model, std::int64_t seq_length, Dtype dtype,
                                  const Cluster& cluster,
                                  const std::vector<Split>& splits = {Split{}});

}  // namespace weir

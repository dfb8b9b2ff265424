// `model`: the layers of a model, their parameters, FLOPs and bytes; or what a GPU launches for
// them; or the costs of layouts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/app/model/layout.hpp"
#include "tools/app/model/model_kernels.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {

struct ModelRequest {
  PlanOptions plan;  // of which `model` may be missing where there are layouts
  LayoutsRequest layouts;
  NetworksRequest networks;
  bool kernels = false;
  std::string gpu;           // of the kernels' times: a cluster, or "h100"
  int micro_batch_size = 1;  // of the kernels; of a network, on all devices
  std::uint64_t seed = 1;
};
[[nodiscard]] Fields fields(ModelRequest& request);

struct ModelResult {
  Model model;
  std::int64_t seq_length = 0;
  Dtype dtype = Dtype::fp32;
  std::optional<LayoutResult> layout;   // then nothing else
  std::optional<ModelKernels> kernels;  // or these
};

// Whether FLOPs and bytes can be told: the length of a sample is known, or there is none.
[[nodiscard]] bool has_length(const ModelResult& result);

[[nodiscard]] ModelResult model(const ModelRequest& request, const Session& session);
// weir.model/1, weir.model_kernels/1, weir.layout_costs/1 or weir.network_costs/1
[[nodiscard]] nlohmann::ordered_json to_json(const ModelResult& result);

inline constexpr UseCase<ModelRequest, ModelResult> kModel{
    "model", "Layers, parameters, FLOPs and bytes per layer", &model};

}  // namespace weir::app

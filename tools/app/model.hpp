// `model`: the layers of a model, their parameters, FLOPs and bytes; or the costs of layouts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tools/app/field.hpp"
#include "tools/app/layouts.hpp"
#include "tools/app/plan_fields.hpp"

namespace weir::app {

struct ModelRequest {
  PlanOptions plan;  // of which `model` may be missing where there are layouts
  LayoutsRequest layouts;
  std::uint64_t seed = 1;
};
[[nodiscard]] Fields fields(ModelRequest& request);

struct ModelResult {
  Model model;
  std::int64_t seq_length = 0;
  Dtype dtype = Dtype::fp32;
  std::optional<LayoutsResult> layouts;  // then nothing else
};

// Whether FLOPs and bytes can be told: the length of a sample is known, or there is none.
[[nodiscard]] bool has_length(const ModelResult& result);

[[nodiscard]] ModelResult model(const ModelRequest& request, const Session& session);
// weir.model/1, or weir.layout_costs/1
[[nodiscard]] nlohmann::ordered_json to_json(const ModelResult& result);

inline constexpr UseCase<ModelRequest, ModelResult> kModel{
    "model", "Layers, parameters, FLOPs and bytes per layer", &model};

}  // namespace weir::app

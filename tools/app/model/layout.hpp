// `layout`: a program of laid-out tensors, its own file or a model's, under its layouts: what each
// device holds, computes and sends, what that costs on a cluster, and the best layouts there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tools/app/model/layouts.hpp"
#include "tools/app/model/networks.hpp"
#include "tools/app/run/process_session.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {

struct LayoutRequest {
  PlanOptions plan;  // its `model` is the program: weir.layout/1, or what `weir model` takes
  LayoutsRequest layouts;
  NetworksRequest networks;
  std::optional<std::filesystem::path> svg;
  SessionOptions processes;  // of --run: those that mpirun started, a processor each
  int micro_batch_size = 1;  // of a model, on all devices
  std::uint64_t seed = 1;
};
[[nodiscard]] Fields fields(LayoutRequest& request);

struct LayoutResult {
  std::optional<LayoutsResult> layouts;    // of einsums
  std::optional<NetworksResult> networks;  // of layers
  bool leads = true;  // false: another process has the result, and this one's is not told
};

// Throws UsageError for options that do not go together, InputError for a program that is none,
// EndedTogether where a run of several processes ends before its end.
[[nodiscard]] LayoutResult layout_use(const LayoutRequest& request, const Session& session);
// Null where another process has it.
[[nodiscard]] nlohmann::ordered_json to_json(const LayoutResult& result);

inline constexpr UseCase<LayoutRequest, LayoutResult> kLayout{
    "layout", "What each device holds, computes and sends under a layout; the best layouts",
    &layout_use};

}  // namespace weir::app

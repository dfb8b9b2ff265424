// `export`: carries a plan to where people train: files, the launch line, and what could not be
// carried.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/shared/field.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"

namespace weir::app {

struct ExportRequest {
  PlanSource plan;  // of dtensor: a layout file
  std::string to;   // torchtitan, torch, megatron, deepspeed or dtensor; empty: nothing is written
  std::string layout_name;                     // of the layout file's; empty: the first
  std::optional<std::filesystem::path> patch;  // the script that the plan came from
  bool allow_other_schedule = false;           // where the tool has none of the plan's
  bool fork = false;                           // Megatron's zero-bubble fork
  std::filesystem::path output = "weir-export";
  int gpus_per_node = 8;
  std::string torchtitan_version = "main";  // or "0.2"
};
[[nodiscard]] Fields fields(ExportRequest& request);

struct ExportResult {
  std::string to;
  std::vector<std::filesystem::path> files;  // as they were written
  std::string launch;                        // to be run in the folder of the files
  std::vector<Remark> not_carried;
  std::vector<ArgumentChange> changes;  // of Megatron's arguments as the job had them
  std::optional<Patch> patch;           // alone, where nothing is written
};

[[nodiscard]] ExportResult export_plan(const ExportRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const ExportResult& result);  // weir.export/1
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<Remark>& remarks);

inline constexpr UseCase<ExportRequest, ExportResult> kExport{
    "export", "Carry a plan to where people train", &export_plan};

}  // namespace weir::app

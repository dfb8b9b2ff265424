// `calibrate`: fits the cost model to measured traces; links alone to what nccl-tests and
// nvidia-smi print; built-in costs to measured figures of a cluster's runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/fit/calibrate.hpp"
#include "tools/app/calibrate/calibrate_links.hpp"
#include "tools/app/calibrate/kineto_run.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct CalibrateRequest {
  std::vector<TraceSource> traces;  // of runs; with a plan, PyTorch profiler files of one
  CostsSource costs;                // to start from
  KinetoOptions kineto;
  std::optional<std::filesystem::path> cluster;  // none: this machine
  StackChoice stack;
  std::optional<int> gpus;
  std::optional<std::filesystem::path> output;  // costs, or the cluster whose links are fitted
  std::vector<std::filesystem::path> nccl;
  std::optional<std::filesystem::path> topology;
  std::vector<std::string> measured;  // "PLAN=FIGURE": anchors the cluster's built-in costs
};
[[nodiscard]] Fields fields(CalibrateRequest& request);

struct CalibrateResult {
  Calibration fit;
  std::optional<LinkResult> links;  // then nothing else
};

[[nodiscard]] CalibrateResult calibrate(const CalibrateRequest& request, const Session& session);
// weir.costs/1 or weir.links/1
[[nodiscard]] nlohmann::ordered_json to_json(const CalibrateResult& result);

inline constexpr UseCase<CalibrateRequest, CalibrateResult> kCalibrate{
    "calibrate", "Fit the cost model to measured traces or figures", &calibrate};

}  // namespace weir::app

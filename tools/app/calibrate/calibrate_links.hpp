// `calibrate` from what other tools measured of links, and print.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/links/measured_link.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

struct LinkRequest {
  std::vector<std::filesystem::path> nccl;              // nccl-tests, text or JSON
  std::optional<std::filesystem::path> topology;        // nvidia-smi topo -m
  std::optional<std::filesystem::path> cluster, costs;  // which of them to refine
  std::optional<std::filesystem::path> output;          // the refined one
};

struct LinkResult {
  std::vector<FittedTest> tests;
  std::vector<std::string> taken;  // what was taken from which test, and what stays as it was
  std::optional<std::filesystem::path> output;
};

[[nodiscard]] LinkResult calibrate_links(const LinkRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const LinkResult& result);  // weir.links/1

}  // namespace weir::app

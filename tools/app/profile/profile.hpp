// `profile`: measures the layers of a model, and links, on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "tools/app/machine/watch.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {

struct ProfileRequest {
  PlanOptions plan;
  std::string backend = "cpu";
  std::optional<int> devices;  // that work at once
  std::vector<int> micro_batch_sizes{1, 2, 4, 8};
  std::optional<std::filesystem::path> output;  // costs file
  QuietOptions quiet;
  std::uint64_t seed = 1;
};
[[nodiscard]] Fields fields(ProfileRequest& request);

struct ProfileResult {
  Costs costs;
};

[[nodiscard]] ProfileResult profile(const ProfileRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const ProfileResult& result);  // weir.costs/1

inline constexpr UseCase<ProfileRequest, ProfileResult> kProfile{
    "profile", "Measure layers and links on this machine", &profile};

}  // namespace weir::app

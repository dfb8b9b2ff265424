// `doctor`: what this machine can run, and why not; and what built-in forecasts are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/job/origins.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct DoctorRequest {
  bool constants = false;
};
[[nodiscard]] Fields fields(DoctorRequest& request);

struct Finding {
  std::string what;
  bool works;
  std::string why;
};
// A constant of a built-in cluster or stack, and where it comes from.
struct KnownConstant {
  std::string file, key, value;  // "dgx-h100", "device.kernels.floor", "3 us"
  Origin origin;
};
struct DoctorResult {
  std::string machine;
  std::vector<Finding> findings;
  std::vector<KnownConstant> constants;  // where they were asked for
};

[[nodiscard]] DoctorResult doctor(const DoctorRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const DoctorResult& result);  // weir.doctor/1

inline constexpr UseCase<DoctorRequest, DoctorResult> kDoctor{
    "doctor", "What this machine can run, and why not", &doctor};

}  // namespace weir::app

// `doctor`: what this machine can run, and why not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/app/field.hpp"

namespace weir::app {

struct DoctorRequest {};
[[nodiscard]] inline Fields fields(DoctorRequest&) { return {}; }

struct Finding {
  std::string what;
  bool works;
  std::string why;
};
struct DoctorResult {
  std::string machine;
  std::vector<Finding> findings;
};

[[nodiscard]] DoctorResult doctor(const DoctorRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const DoctorResult& result);  // weir.doctor/1

inline constexpr UseCase<DoctorRequest, DoctorResult> kDoctor{
    "doctor", "What this machine can run, and why not", &doctor};

}  // namespace weir::app

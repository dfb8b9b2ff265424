// What the formats of this room share, and their tables in docs/formats.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/format/spec.hpp"

namespace weir {

struct Optimizer;
struct Origin;

// Of plans and checkpoints.
[[nodiscard]] Json optimizer_json(const Optimizer& optimizer);

[[nodiscard]] std::vector<format::Section> plan_sections();
[[nodiscard]] std::vector<format::Section> cluster_sections();
[[nodiscard]] std::vector<format::Section> stack_sections();

namespace format {

// The key `origins` of machines and stacks (plan/job/origins).
struct ByPath {
  static constexpr const char* kType = "object";
  static void read(const Spec& key, JsonObject& object, std::map<std::string, Origin>& origins);
  static Json write(const Spec&, const std::map<std::string, Origin>& origins);
  static void describe(const std::string& path, Rows& rows);
};

}  // namespace format
}  // namespace weir

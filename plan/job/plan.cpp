// A plan's way to another folder and to a file.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan.hpp"

#include "plan/text/text_file.hpp"

namespace weir {
Plan rebased(Plan plan, const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto seen_from_there = [&](const std::string& path) {
    return std::filesystem::proximate(std::filesystem::absolute(from / path),
                                      std::filesystem::absolute(to))
        .string();
  };
  plan.model_path = seen_from_there(plan.model_path);
  if (plan.schedule.ends_with(".csv")) plan.schedule = seen_from_there(plan.schedule);
  return plan;
}

void save_plan(const Plan& plan, const std::filesystem::path& file) {
  write_file_atomically(file, to_json(plan));
}

}  // namespace weir

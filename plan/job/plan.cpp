// A plan's words, and its way to another folder.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan.hpp"

#include <utility>

#include "plan/text/text_file.hpp"

namespace weir {
namespace {

constexpr std::pair<RecomputeMode, std::string_view> kRecomputeModes[] = {
    {RecomputeMode::none, "none"},
    {RecomputeMode::selective, "selective"},
    {RecomputeMode::full, "full"}};

}  // namespace

std::string_view to_string(RecomputeMode mode) {
  for (const auto& [known, word] : kRecomputeModes) {
    if (known == mode) return word;
  }
  return "";
}

std::optional<RecomputeMode> parse_recompute_mode(std::string_view text) {
  for (const auto& [mode, word] : kRecomputeModes) {
    if (word == text) return mode;
  }
  return std::nullopt;
}

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

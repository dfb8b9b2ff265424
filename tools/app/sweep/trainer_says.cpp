// Asks the table by which export refuses.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/trainer_says.hpp"

#include <fmt/format.h>

#include "tools/jobs/trainers/ask.hpp"
#include "tools/reproduce/known_software.hpp"

namespace weir::app {
namespace {

std::optional<Trainer> trainer_of(const std::string& stack) {
  const std::string whose = whose_abilities(stack);
  if (whose.starts_with("torchtitan")) return Trainer::torchtitan;
  if (whose == "megatron-core") return Trainer::megatron;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> trainer_refuses(const std::string& stack, const ResolvedPlan& best) {
  const auto trainer = trainer_of(stack);
  if (!trainer) return std::nullopt;
  const TrainerRow* row = refused_by(*trainer, facts_of(best));
  if (row == nullptr) return std::nullopt;
  return fmt::format("the best plan is not run as it stands: {}: {} ({})", row->key, row->says,
                     row_name(*trainer, *row));
}

}  // namespace weir::app

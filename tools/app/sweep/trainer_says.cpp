// Asks the table by which export refuses.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/trainer_says.hpp"

#include <fmt/format.h>

#include "tools/jobs/trainers/ask.hpp"

namespace weir::app {
namespace {

std::optional<Trainer> trainer_of(const std::string& stack) {
  if (stack.starts_with("torchtitan")) return Trainer::torchtitan;
  if (stack == "megatron-core") return Trainer::megatron;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> trainer_refuses(const std::string& stack, const ResolvedPlan& best,
                                           const ResolvedPlan* baseline) {
  const auto trainer = trainer_of(stack);
  if (!trainer) return std::nullopt;
  const TrainerRow* row = refused_by(*trainer, facts_of(best));
  if (row == nullptr) return std::nullopt;
  // Who runs the baseline with it has a trainer of their own, or a fork.
  if (baseline != nullptr && row->holds(facts_of(*baseline))) return std::nullopt;
  return fmt::format("the best plan is not run as it stands: {}: {} ({})", row->key, row->says,
                     row_name(*trainer, *row));
}

}  // namespace weir::app

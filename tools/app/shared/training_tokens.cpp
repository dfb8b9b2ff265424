// The option --train-tokens.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/training_tokens.hpp"

#include <fmt/format.h>

#include <cmath>

#include "plan/job/plan.hpp"
#include "plan/words/error.hpp"

namespace weir::app {

Field train_tokens_field(std::optional<double>& tokens) {
  return {"--train-tokens",
          &tokens,
          "Tokens of a whole training, as 15e12: also its GPU-hours, its time and, where the "
          "cluster says a price, its money",
          {.range = kTrainedTokens}};
}

void require_tokens(const std::optional<double>& tokens, const Plan& plan) {
  if (!tokens) return;
  if (std::floor(*tokens) != *tokens)
    throw UsageError(fmt::format("--train-tokens: {}: expected a whole number", *tokens));
  if (plan.seq_length == 0)
    throw UsageError("--train-tokens: samples of this model are not sequences of tokens");
}

}  // namespace weir::app

// A plan's training as options.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/training_fields.hpp"

#include <fmt/format.h>

#include <limits>

#include "plan/words/error.hpp"

namespace weir {

void take_training(const Plan& plan, const app::Session& session, PlanOptions& options,
                   std::uint64_t& seed) {
  const auto own = [&session](const char* option, auto& value, const auto& its) {
    if (!session.given(option)) value = its;
  };
  const Optimizer& o = plan.optimizer;
  own("seed", seed, plan.seed);
  own("optimizer", options.optimizer, std::string(to_string(o.kind)));
  own("learning-rate", options.learning_rate, o.learning_rate);
  own("momentum", options.momentum, o.momentum);
  own("nesterov", options.nesterov, o.nesterov);
  own("newton-schulz", options.newton_schulz, o.newton_schulz);
  own("weight-decay", options.weight_decay, o.weight_decay);
  own("clip-grad", options.clip_grad, o.clip_norm);
  own("lr-warmup-iters", options.lr_warmup_iters, o.rate.warmup_iters);
  own("lr-decay-style", options.lr_decay_style, std::string(to_string(o.rate.style)));
  own("lr-decay-iters", options.lr_decay_iters, o.rate.decay_iters);
  own("min-lr", options.min_lr, o.rate.min_lr);
}

void take_unnamed(const Plan& plan, Plan& base) {
  Optimizer& o = base.optimizer;
  const Optimizer& its = plan.optimizer;
  o.beta1 = its.beta1;
  o.beta2 = its.beta2;
  o.epsilon = its.epsilon;
  o.alpha = its.alpha;
}

int mini_batch_of(const Plan& plan, const std::string& file) {
  const std::int64_t samples = plan.global_batch_size();
  if (samples <= std::numeric_limits<int>::max()) return static_cast<int>(samples);
  throw InputError(file, "microbatches",
                   fmt::format("b M D = {} {} {} makes a mini-batch of {}; expected at most {}",
                               plan.micro_batch_size, plan.microbatches, plan.dp, samples,
                               std::numeric_limits<int>::max()));
}

}  // namespace weir

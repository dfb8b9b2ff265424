// Rates and factors of an optimizer, and the words of its enumerations.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<OptimizerKind, 5> kOptimizers{{{OptimizerKind::sgd, "sgd"},
                                               {OptimizerKind::rmsprop, "rmsprop"},
                                               {OptimizerKind::adam, "adam"},
                                               {OptimizerKind::adamw, "adamw"},
                                               {OptimizerKind::muon, "muon"}}};
constexpr Names<DecayStyle, 3> kDecayStyles{{{DecayStyle::constant, "constant"},
                                             {DecayStyle::linear, "linear"},
                                             {DecayStyle::cosine, "cosine"}}};

std::optional<OptimizerFault> fault_of_rate(const Optimizer& o) {
  const RateSchedule& rate = o.rate;
  const bool decays = rate.style != DecayStyle::constant;
  if (!decays && rate.decay_iters != 0)
    return OptimizerFault{"lr_decay_iters", "expected with lr_decay_style linear or cosine only"};
  if (!decays && rate.min_lr != 0)
    return OptimizerFault{"min_lr", "expected with lr_decay_style linear or cosine only"};
  if (decays && rate.decay_iters <= rate.warmup_iters)
    return OptimizerFault{"lr_decay_iters", fmt::format("{}: expected more than the {} of warm-up",
                                                        rate.decay_iters, rate.warmup_iters)};
  if (rate.min_lr > o.learning_rate)
    return OptimizerFault{"min_lr", fmt::format("{}: expected at most the learning rate, {}",
                                                rate.min_lr, o.learning_rate)};
  return std::nullopt;
}

}  // namespace

std::string_view to_string(OptimizerKind kind) { return name_of(kOptimizers, kind); }
std::optional<OptimizerKind> parse_optimizer_kind(std::string_view text) {
  return named(kOptimizers, text);
}
std::string_view to_string(DecayStyle style) { return name_of(kDecayStyles, style); }
std::optional<DecayStyle> parse_decay_style(std::string_view text) {
  return named(kDecayStyles, text);
}

int state_numbers(const Optimizer& optimizer) {
  const int velocity = optimizer.momentum > 0 ? 1 : 0;
  switch (optimizer.kind) {
    case OptimizerKind::sgd:
      return velocity;
    case OptimizerKind::rmsprop:
      return 1 + velocity;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::muon:
      break;
  }
  return 2;
}

double learning_rate_at(const Optimizer& optimizer, std::int64_t step) {
  const RateSchedule& rate = optimizer.rate;
  const double most = optimizer.learning_rate;
  const auto done = static_cast<double>(step);
  const auto warmup = static_cast<double>(rate.warmup_iters);
  // Linear, and whole at the last step of the warm-up.
  if (rate.warmup_iters > 0 && step <= rate.warmup_iters) return most * done / warmup;
  if (rate.style == DecayStyle::constant) return most;
  if (step > rate.decay_iters) return rate.min_lr;
  const double gone = (done - warmup) / (static_cast<double>(rate.decay_iters) - warmup);
  // The cosine's first half turn goes from 1 to -1, which is from all to nothing here.
  const double left =
      rate.style == DecayStyle::linear ? 1 - gone : (1 + std::cos(std::numbers::pi * gone)) / 2;
  return rate.min_lr + left * (most - rate.min_lr);
}

double clip_factor(const Optimizer& optimizer, double norm) {
  if (optimizer.clip_norm <= 0) return 1;
  // As torch.nn.utils.clip_grad_norm_ has it, with its 1e-6 against a norm of 0.
  return std::min(1.0, optimizer.clip_norm / (norm + 1e-6));
}

std::optional<OptimizerFault> fault_of(const Optimizer& o) {
  const bool muon = o.kind == OptimizerKind::muon;
  const bool has_momentum =
      o.kind == OptimizerKind::sgd || o.kind == OptimizerKind::rmsprop || muon;
  if (o.momentum > 0 && !has_momentum)
    return OptimizerFault{
        "momentum", fmt::format("expected with sgd, rmsprop or muon, not {}", to_string(o.kind))};
  if (o.nesterov && ((o.kind != OptimizerKind::sgd && !muon) || o.momentum <= 0))
    return OptimizerFault{"nesterov", "expected with sgd or muon and a momentum only"};
  return fault_of_rate(o);
}

}  // namespace weir

// How a training step changes the weights: the rule, its numbers, and what they are at each step.
// Rules and weight decay as PyTorch defines them (torch.optim), the learning rate's course as
// Megatron does (optimizer_param_scheduler.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

// adamw decays the weights apart from the gradient (Loshchilov & Hutter, ICLR 2019, algorithm 2),
// and so does muon; the others add the decay to the gradient. muon makes the momentum of each
// matrix of a block nearly orthogonal before it is taken off (Jordan et al., "Muon", 2024), and
// treats all else as adamw does.
enum class OptimizerKind : std::uint8_t { sgd, rmsprop, adam, adamw, muon };
[[nodiscard]] std::string_view to_string(OptimizerKind kind);
[[nodiscard]] std::optional<OptimizerKind> parse_optimizer_kind(std::string_view text);

enum class DecayStyle : std::uint8_t { constant, linear, cosine };
[[nodiscard]] std::string_view to_string(DecayStyle style);
[[nodiscard]] std::optional<DecayStyle> parse_decay_style(std::string_view text);

// From 0 to the optimizer's rate over the steps of the warm-up, then by the style down to `min_lr`
// at `decay_iters` steps (counted from the run's first), where it stays.
struct RateSchedule {
  std::int64_t warmup_iters = 0;
  std::int64_t decay_iters = 0;  // of linear and cosine; else 0
  DecayStyle style = DecayStyle::constant;
  double min_lr = 0;
  bool operator==(const RateSchedule&) const = default;
};

struct Optimizer {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0;                               // sgd, rmsprop, muon
  bool nesterov = false;                             // sgd, muon
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adam, adamw, muon; epsilon of rmsprop too
  int newton_schulz = 5;                             // muon: steps that make a matrix orthogonal
  double alpha = 0.99;                               // rmsprop: of the mean of squares
  double weight_decay = 0;
  // The gradients of all weights are scaled down together until their norm is at most this; 0:
  // they are left as they are.
  double clip_norm = 0;
  RateSchedule rate;
  bool operator==(const Optimizer&) const = default;
};

// How many fp32 numbers the rule keeps for each of a weight's from step to step; muon's of what it
// treats as adamw does: its matrices have one, the momentum.
[[nodiscard]] int state_numbers(const Optimizer& optimizer);

// Of step 0, 1, ...: with n steps done before it, rate n / warmup while n <= warmup; then, with p =
// (n - warmup) / (decay_iters - warmup), min_lr + (rate - min_lr) (1 - p) or ... (1 + cos(pi p)) /
// 2.
[[nodiscard]] double learning_rate_at(const Optimizer& optimizer, std::int64_t step);

// The factor of all gradients, 1 or below: clip_norm / (norm + 1e-6), as torch.nn.utils.
// clip_grad_norm_ and Megatron have it.
[[nodiscard]] double clip_factor(const Optimizer& optimizer, double norm);

// What in its numbers contradicts, by the key of weir.plan/1's optimizer.
struct OptimizerFault {
  std::string key;
  std::string expected;
};
[[nodiscard]] std::optional<OptimizerFault> fault_of(const Optimizer& optimizer);

}  // namespace weir

// The optimizer of a stage as kernels on the rank's stream.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/update.hpp"

#include <fmt/format.h>

#include "exec/cuda/kernels/optimizer.hpp"
#include "plan/words/error.hpp"

namespace weir::cuda {
namespace {

Updated updated(const UpdateCall& call) {
  if (call.gradients.empty() || call.gradients.size() > kMostCopies) {
    throw RunFailed(fmt::format("the cuda backend sums up to {} uses of a weight, not {}",
                                kMostCopies, call.gradients.size()));
  }
  Gradients gradients{};
  for (const Tensor& gradient : call.gradients) gradients.of[gradients.count++] = gradient.floats();
  return {gradients,
          call.elements,
          call.master ? Weights{call.master.floats(), elements<Bf16>(call.weight)}
                      : Weights{call.weight.floats(), nullptr},
          call.state1.floats(),
          call.state2.floats(),
          call.decays};
}

}  // namespace

void update(std::span<const UpdateCall> calls, const Workbench& on) {
  if (calls.empty()) return;
  std::vector<Updated> parameters;
  for (const UpdateCall& call : calls) parameters.push_back(updated(call));
  const Optimizer& o = calls.front().optimizer;
  const auto rate = static_cast<float>(learning_rate_at(o, calls.front().step - 1));
  const auto decay = static_cast<float>(o.weight_decay);
  if (o.kind == OptimizerKind::adamw) {
    adamw({rate, 1.0F - rate * decay, static_cast<float>(o.epsilon), o.beta1, o.beta2}, parameters,
          on.numbers, on.stream);
  } else {
    sgd({rate, decay, static_cast<float>(o.momentum)}, parameters, on.stream);
  }
}

}  // namespace weir::cuda

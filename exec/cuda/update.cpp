// The optimizer of a parameter as kernels on the rank's stream.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/update.hpp"

#include <fmt/format.h>

#include "exec/cuda/kernels/optimizer.hpp"
#include "plan/words/error.hpp"

namespace weir::cuda {

void update(const UpdateCall& call, const Workbench& on) {
  if (call.gradients.empty() || call.gradients.size() > kMostCopies) {
    throw RunFailed(fmt::format("the cuda backend sums up to {} uses of a weight, not {}",
                                kMostCopies, call.gradients.size()));
  }
  Gradients gradients{};
  for (const Tensor& gradient : call.gradients) gradients.of[gradients.count++] = gradient.floats();
  const Optimizer& o = call.optimizer;
  const auto rate = static_cast<float>(learning_rate_at(o, call.step - 1));
  const float decay = call.decays ? static_cast<float>(o.weight_decay) : 0.0F;
  const Weights weights = call.master ? Weights{call.master.floats(), elements<Bf16>(call.weight)}
                                      : Weights{call.weight.floats(), nullptr};
  if (o.kind == OptimizerKind::adamw) {
    adamw({rate, 1.0F - rate * decay, static_cast<float>(o.epsilon), o.beta1, o.beta2}, gradients,
          call.elements, weights, call.state1.floats(), call.state2.floats(), on.numbers,
          on.stream);
  } else {
    sgd({rate, decay, static_cast<float>(o.momentum)}, gradients, call.elements, weights,
        call.state1.floats(), on.stream);
  }
}

}  // namespace weir::cuda

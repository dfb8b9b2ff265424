// Bytes that a device holds for each parameter from step to step: the weight, its gradient, what
// the optimizer keeps; and what each stage of ZeRO leaves of them when N replicas share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/job/plan.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct StateBytes {
  std::int64_t weights = 4;
  std::int64_t gradients = 4;  // accumulated in fp32 (docs/design.md 10), whatever the weights are
  std::int64_t optimizer = 8;
};

// fp32 and tf32: weights of 4 bytes; bf16 and fp16: weights of 2 and, among the optimizer's, a
// master copy of 4 (Micikevicius et al., ICLR 2018, section 3.1). Adam and AdamW keep two moments
// in fp32, RMSProp one, SGD none; the latter two another with momentum. AdamW: 4 + 4 + 8 = 16,
// mixed 2 + 4 + 12 = 18.
[[nodiscard]] StateBytes state_bytes(const Optimizer& optimizer, Dtype dtype);

// Rajbhandari et al., "ZeRO", SC 2020, section 5: of `parameters` shared by N replicas, stage 1
// divides the optimizer's bytes by N (Megatron's distributed optimizer), stage 2 the gradients'
// too, stage 3 the weights' too. Rounded up.
struct StateShare {
  Bytes weights{0}, gradients{0}, optimizer{0};
  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer; }
};
[[nodiscard]] StateShare zero_share(std::int64_t parameters, const StateBytes& bytes, int zero,
                                    int replicas);

}  // namespace weir

// The backends by name, and the one that a run asks for.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/backend.hpp"

#include <fmt/format.h>

#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {

std::string to_string(BackendKind kind) {
  static constexpr Names<BackendKind, 3> kNames{{{BackendKind::cpu, "cpu"},
                                                 {BackendKind::cuda, "cuda"},
                                                 {BackendKind::synthetic, "synthetic"}}};
  return std::string(name_of(kNames, kind));
}

void Backend::logits(const LayerCall&, float*) {
  throw MissingComponent("logits are kept on the cpu backend only");
}

double Backend::sum_of_squares(std::span<const Tensor>, std::int64_t) {
  throw MissingComponent("gradients are clipped on the cpu backend only");
}

const BackendFactory& factory_of(BackendKind kind, const Backends& backends) {
  const auto factory = backends.find(kind);
  if (factory == backends.end())
    throw MissingComponent(fmt::format("this build has no {} backend", to_string(kind)));
  return factory->second;
}

}  // namespace weir

// The state that nothing has trained.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/parameter_state.hpp"

#include "exec/training/parameters.hpp"

namespace weir {

StateSource seeded_state(const ResolvedPlan& loaded) {
  return [&loaded](ParameterId weight, const ParameterTensor& parameter) {
    return ParameterState{
        initial_values(loaded.model, parameter, static_cast<std::uint32_t>(weight.layer),
                       static_cast<std::uint32_t>(weight.tensor), loaded.plan.seed),
        {},
        {}};
  };
}

}  // namespace weir

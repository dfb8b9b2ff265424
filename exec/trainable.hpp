// Which layers the backends have kernels for, and which plans they can run. A model may be planned and forecast long
// before it can be trained; what cannot be trained is refused before anything starts. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include "plan/model.hpp"
#include "plan/plan.hpp"

namespace weir {

// Throws MissingComponent naming the first layer, and the first thing in it, for which there are no kernels. Timed
// layers pass: they have no kernels in any sense, and who runs them says so.
void require_kernels(const Model& model);

// Throws MissingComponent naming the first thing in the plan that is forecast only: devices beside those of the
// pipeline, ZeRO, selective re-materialisation.
void require_pipeline_alone(const Plan& plan);

}  // namespace weir

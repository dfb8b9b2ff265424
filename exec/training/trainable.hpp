// Which layers the backends have kernels for, and which plans they can run. A model may be planned
// and forecast long before it can be trained; what cannot be trained is refused before anything
// starts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/device/backend.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/model.hpp"

namespace weir {

// Throws MissingComponent naming all that the backend has no kernels for, each thing once, with the
// first layer that has it. Timed layers pass: they have no kernels in any sense, and who runs them
// says so.
void require_kernels(const Model& model, BackendKind backend);

// Throws MissingComponent where the plan's schedule divides the vocabulary, which no backend runs;
// or the published one of this name.
void require_whole_vocabulary(const ResolvedPlan& loaded);
void require_whole_vocabulary(const std::string& schedule);

// How many copies of the pipeline, or devices that divide its layers, the run can keep in step.
enum class Replicas : std::uint8_t { one, many };

// All of the above, for a plan that is about to be trained, and more: throws MissingComponent
// naming besides, in the same line, all in the plan that is forecast only (context and expert
// parallelism, sequences divided beside layers, ZeRO above stage 1, selective re-materialisation)
// or in its optimizer, for which the backend has no kernels, InputError for layers and schedules
// that no backend can train.
void require_trainable(const ResolvedPlan& loaded, Replicas replicas, BackendKind backend);

}  // namespace weir

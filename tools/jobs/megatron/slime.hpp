// A script of THUDM/slime starts Megatron with Megatron's arguments and its own among them: what
// slime sets where they say nothing, and the samples and micro-batches that its rollouts make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/plan.hpp"
#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/job/given.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

[[nodiscard]] bool is_slimes(const Arguments& arguments);

// Precision, sharing, length and mini-batch, before the user's own options fill what is left.
// Throws InputError where nothing says how long samples are, or where the mini-batch is not the
// share of a rollout that the script says.
void take_slimes_defaults(Arguments& arguments, const GivenFields& given,
                          std::vector<Remark>& remarks);

// Samples a micro-batch, where neither the script nor the user says so, of a plan whose replicas
// and virtual stages are known. Throws InputError where packed micro-batches are of a mini-batch
// that the replicas do not divide.
void take_slimes_micro_batch(Arguments& arguments, const Plan& plan, const GivenFields& given,
                             std::vector<Remark>& remarks);

}  // namespace weir

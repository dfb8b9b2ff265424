// What a sweep searches: what was said, what the baseline or the cluster says where it was not, and
// what is left to the search.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/plan.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/shared/session.hpp"
#include "tools/app/sweep/sweep_request.hpp"

namespace weir::app {

// What the request leaves open is the baseline's.
void complete(SweepRequest& request, const Plan& baseline, const Session& session);
// Without a baseline: the precision of the cluster's devices.
void complete(SweepRequest& request, SweepReply& reply, const Session& session);

// Whether the search chooses degrees: on a cluster where one was not said, or where devices were.
// This machine runs pipelines, and no other kind of parallelism.
[[nodiscard]] bool leaves_degrees_open(const SweepRequest& request);
// Elsewhere what was not said is plain.
void say_the_rest(SweepRequest& request);

// The devices asked for, on as many of the cluster's nodes as they need. Throws UsageError.
void take_devices(const SweepRequest& request, SweepReply& reply);

// What of the named choices the software has not, a line each: it is searched all the same.
[[nodiscard]] std::vector<std::string> named_beyond(const weir::SweepRequest& asked,
                                                    const std::string& stack);

// Throws UsageError for options that contradict each other, NoFeasiblePlan where no K is left.
[[nodiscard]] weir::SweepRequest search_for(const SweepRequest& request, const Plan& base,
                                            const Cluster& cluster, const Session& session);

}  // namespace weir::app

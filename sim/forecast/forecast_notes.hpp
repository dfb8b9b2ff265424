// What a forecast says in words beside its figures: its warnings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/memory/host_memory.hpp"
#include "costmodel/table/cost_table.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/forecast/forecast_record.hpp"

namespace weir {

// Each adds its line where it is the case. Of a pipeline whose memory is nearly full, as measured
// ones were that crept; the peaks must be there.
void warn_of_crowded_memory(const Plan& plan, const Cluster& cluster, Forecast& f);
// Of stages without a layer.
void warn_of_empty_stages(const ResolvedPlan& loaded, Forecast& f);
// Of skips that go directly.
void warn_of_direct_skips(const ResolvedPlan& loaded, Forecast& f);
// Of sequences longer than the model's file speaks of, where positions go on.
void say_of_positions(const ResolvedPlan& loaded, Forecast& f);
// What rows of several sequences compute, and what unlike ones cost.
void say_of_lengths(const ResolvedPlan& loaded, const CostTable& table, Forecast& f);
// What a plan that offloads asks of the fullest node's host.
void say_of_host(const HostHeld& host, Forecast& f);
// Why exchanges of experts are not hidden though the plan asks for it.
void say_of_experts(const Plan& plan, const Cluster& cluster, Forecast& f);

}  // namespace weir

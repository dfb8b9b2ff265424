// A trace with the plan it is of: written into its info when it was made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plan/job/resolve.hpp"
#include "plan/text/new_file.hpp"
#include "tools/app/shared/session.hpp"
#include "traces/trace.hpp"

namespace weir {

struct TracedPlan {
  ResolvedPlan plan;
  Trace trace;
};

// The plan that a trace from `file` says it is of. Throws InputError where it says none.
[[nodiscard]] PlanFile plan_of_trace(const Trace& trace, const std::filesystem::path& file);

// Throws InputError: no plan in the trace, its model moved or changed, spans that are not the
// plan's operations. Where it is a trace of the plan `of`, no model is looked for: it may lie
// elsewhere than where it was written.
[[nodiscard]] TracedPlan load_traced_plan(const std::filesystem::path& file,
                                          const ResolvedPlan* of = nullptr);

// Throws InputError for a run whose times say nothing about its plan: on fewer cores than ranks, or
// with every kernel recorded. `file`: where the trace is from.
void require_comparable(const Trace& trace, const std::filesystem::path& file);

// NAME.json and NAME.pftrace in `folder`.
struct TraceFiles {
  std::filesystem::path folder;
  std::string name;
};
// Adds them to what is written, with the plan in the info; its paths start from `base` here, from
// the folder there.
void add_traced_plan(NewFiles& written, Trace trace, const ResolvedPlan& plan,
                     const std::filesystem::path& base, const TraceFiles& files,
                     const app::Session& session);
// The same two files and no other.
void save_traced_plan(Trace trace, const ResolvedPlan& plan, const std::filesystem::path& base,
                      const TraceFiles& files, const app::Session& session);

}  // namespace weir

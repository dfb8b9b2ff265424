// Traces that carry their plan, read, judged and written.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/traced_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "plan/words/error.hpp"
#include "traces/chrome_json.hpp"
#include "traces/perfetto.hpp"

namespace weir {

TracedPlan load_traced_plan(const std::filesystem::path& file) {
  Trace trace = load_trace(file);
  const auto plan = trace.info.find("plan");
  if (plan == trace.info.end())
    throw InputError(file.string(), "weir.info.plan", "is missing: which plan is this a trace of?");
  PlanFile read = read_plan(plan->second, file.string());
  TracedPlan traced{resolve(read.plan, file.parent_path()), std::move(trace)};
  traced.plan.remarks = std::move(read.remarks);
  const Program& program = traced.plan.program;
  const std::size_t count = program.size();
  if (traced.trace.steps.empty() ||
      traced.trace.spans.size() != count * traced.trace.steps.size()) {
    throw InputError(file.string(), "traceEvents",
                     fmt::format("expected {} spans for each of {} steps, found {}", count,
                                 traced.trace.steps.size(), traced.trace.spans.size()));
  }
  for (std::size_t i = 0; i < traced.trace.spans.size(); ++i) {
    const Span& span = traced.trace.spans[i];
    const Operation& planned = program.op(OperationId{i % count});
    if (span.operation != OperationId{i % count} || span.action != planned.action) {
      throw InputError(
          file.string(), "traceEvents",
          fmt::format("{} is not the plan's operation {}", to_string(span.action), i % count));
    }
    // Where and when it was: the sort above took these for granted.
    const Lane& lane = program.lane(planned.lane);
    if (span.rank != lane.rank || span.lane != lane.kind ||
        span.step != static_cast<std::int32_t>(i / count)) {
      throw InputError(
          file.string(), "traceEvents",
          fmt::format("operation {}, {}, is of rank {}, lane {}, step {}; the plan has "
                      "it on rank {}, lane {}, step {}",
                      i % count, to_string(span.action), span.rank.value, to_string(span.lane),
                      span.step, lane.rank.value, to_string(lane.kind), i / count));
    }
  }
  return traced;
}

void require_comparable(const Trace& trace, const std::filesystem::path& file) {
  const auto label = trace.info.find("label");
  if (label != trace.info.end() && label->second == "oversubscribed") {
    throw InputError(
        file.string(), "weir.info.label",
        "the run was oversubscribed: with fewer cores than ranks its times compare with nothing");
  }
  if (trace.info.contains("kernels")) {
    throw InputError(file.string(), "weir.info.kernels",
                     "the run recorded its kernels, which slows it: its times compare with "
                     "nothing; run it without");
  }
}

void add_traced_plan(NewFiles& written, Trace trace, const ResolvedPlan& loaded,
                     const std::filesystem::path& base, const TraceFiles& files,
                     const app::Session& session) {
  const std::filesystem::path chrome = session.output(files.folder / (files.name + ".json"));
  const std::filesystem::path perfetto = session.output(files.folder / (files.name + ".pftrace"));
  trace.info["plan"] = to_json(rebased(loaded.plan, base, files.folder));
  written.add(chrome, to_chrome_json(trace));
  const std::array<const Trace*, 1> only{&trace};
  written.add(perfetto, to_perfetto(only));
}

void save_traced_plan(Trace trace, const ResolvedPlan& plan, const std::filesystem::path& base,
                      const TraceFiles& files, const app::Session& session) {
  NewFiles written;
  add_traced_plan(written, std::move(trace), plan, base, files, session);
  written.commit();
}

}  // namespace weir

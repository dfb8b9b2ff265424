// Traces that carry their plan, read, judged and written.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/traced_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "plan/words/error.hpp"
#include "traces/chrome_json.hpp"
#include "traces/disturbance.hpp"
#include "traces/perfetto.hpp"

namespace weir {
namespace {

// What `read` finds in a text within the trace, whose complaints are then of the file.
template <class Read>
auto read_within(const std::filesystem::path& file, Read read) {
  try {
    return read();
  } catch (const InputError& error) {
    throw InputError(file.string(), "weir.info", error.what());
  }
}

// Steps follow each other, and a span is of its step's time. Clocks of processes and of devices are
// aligned to within some of a step, so that a span may stick out by no more than the step's length.
void require_in_time(const Trace& trace, const std::filesystem::path& file) {
  for (std::size_t step = 1; step < trace.steps.size(); ++step) {
    if (trace.steps[step].start < trace.steps[step - 1].start)
      throw InputError(file.string(), fmt::format("weir.steps[{}].start_ns", step),
                       "is before the start of the step before");
  }
  for (const Span& span : trace.spans) {
    const StepWindow& window = trace.steps[static_cast<std::size_t>(span.step)];
    const Nanoseconds length = window.end - window.start;
    if (span.start >= window.start - length && span.end <= window.end + length) continue;
    throw InputError(file.string(), "traceEvents",
                     fmt::format("{} from {} to {} ns is not of its step {}, {} to {} ns",
                                 to_string(span.action), span.start.count(), span.end.count(),
                                 span.step, window.start.count(), window.end.count()));
  }
}

// Equal but for the path of the model, of which there is a hash. A schedule that is a file may have
// changed: only what it is now tells.
bool is_of(Plan traced, const Plan& plan) {
  if (traced.schedule.ends_with(".csv")) return false;
  traced.model_path = plan.model_path;
  return traced == plan;
}

}  // namespace

PlanFile plan_of_trace(const Trace& trace, const std::filesystem::path& file) {
  const auto plan = trace.info.find("plan");
  if (plan == trace.info.end())
    throw InputError(file.string(), "weir.info.plan", "is missing: which plan is this a trace of?");
  return read_plan(plan->second, file.string());
}

TracedPlan load_traced_plan(const std::filesystem::path& file, const ResolvedPlan* of) {
  Trace trace = load_trace(file);
  PlanFile read = plan_of_trace(trace, file);
  // The plan at hand is resolved already, wherever the trace now lies.
  ResolvedPlan resolved =
      of != nullptr && is_of(read.plan, of->plan)
          ? *of
          : read_within(file, [&] { return resolve(read.plan, file.parent_path()); });
  // Read for its errors alone.
  static_cast<void>(read_within(file, [&] { return disturbance_of(trace); }));
  TracedPlan traced{std::move(resolved), std::move(trace)};
  traced.plan.remarks = std::move(read.remarks);
  const Program& program = traced.plan.program;
  if (traced.trace.ranks != program.shape().ranks) {
    throw InputError(
        file.string(), "weir.ranks",
        fmt::format("expected the plan's {}, found {}", program.shape().ranks, traced.trace.ranks));
  }
  const std::size_t count = program.size();
  if (traced.trace.steps.empty() ||
      traced.trace.spans.size() != count * traced.trace.steps.size()) {
    throw InputError(file.string(), "traceEvents",
                     fmt::format("expected {} spans for each of {} steps, found {}", count,
                                 traced.trace.steps.size(), traced.trace.spans.size()));
  }
  // Every span in its place: all that follows indexes spans by operation.
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
  require_in_time(traced.trace, file);
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

// Options of a run: files that it writes, contradictions, waits instead of work, who is told.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "plan/words/figures.hpp"
#include "tools/app/run/synthetic.hpp"
#include "tools/app/shared/memory_need.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {
namespace {

constexpr Seconds kLongWait(1);  // of a run without work: people are told

std::optional<std::filesystem::path> written(const std::optional<std::filesystem::path>& file,
                                             const Session& session) {
  if (file) static_cast<void>(session.output(*file));
  return file;
}

Graphs graphs_of(const RunRequest& r) {
  if (r.graphs && r.launched) throw UsageError("--graphs and --launched exclude each other");
  if (r.graphs) return Graphs::always;
  return r.launched ? Graphs::never : Graphs::where_possible;
}

RunOptions asked(const RunRequest& r, const Session& session) {
  return {.backend = parse_backend(r.backend),
          .steps = r.steps,
          .warmup_steps = r.steps == 0 ? 0 : r.warmup,
          .data = r.data,
          .init = r.init,
          .save = written(r.save, session),
          .dump = written(r.dump, session),
          .evaluate = r.evaluate,
          .fastest = r.fastest,
          .graphs = graphs_of(r),
          .kernels = r.kernels,
          .output = r.output,
          .checkpoint_every = r.checkpoint_every,
          .resume = r.resume,
          .hangs = r.hangs,
          .longest_action = Seconds(r.longest_action_s)};
}

void check(const RunRequest& r, const RunOptions& options, const Session& session) {
  static_cast<void>(written(r.picture, session));
  if (r.picture && (options.backend == BackendKind::synthetic || r.steps == 0))
    throw UsageError("--svg draws losses of steps that train: here are none");
  if (r.checkpoint_every > 0 && !r.output)
    throw UsageError("--checkpoint-every needs --output, the folder for checkpoints");
}

void announce(const ResolvedPlan& loaded, const RunOptions& options, const Session& session) {
  say_need_of_run(loaded, options.steps, options.backend == BackendKind::cpu, session);
  const Plan& plan = loaded.plan;
  if (plan.placement.empty() && plan.rank_order == RankOrder::tp_cp_dp_pp) return;
  session.note(
      "placement and rank_order of the plan are not followed: processes run where they are "
      "started, replica after replica");
}

// Without work every action waits as long as `step` says; a wait that people notice is announced.
void wait_instead(RunOptions& options, SyntheticStep step, const Session& session, bool leads) {
  options.synthetic_duration_ns = std::move(step.duration_ns);
  const int steps = options.steps + options.warmup_steps;
  if (!leads || step.time * steps < kLongWait) return;
  session.log(fmt::format("waits some {}: {} steps of {}", format_duration(step.time * steps),
                          steps, format_duration(step.time)));
}

// "step 12 of 100  loss 3.456789  gradient norm 0.8123  12345 tokens/s  1 min 05 s left"; of
// samples that are no sequences samples/s. What trains nothing has no loss, and the norm is said
// where gradients are clipped.
std::string status_line(const StepReport& report, const Plan& plan, BackendKind backend) {
  const bool sequences = plan.seq_length > 0;
  const auto samples = static_cast<double>(plan.global_batch_size());
  const double units = sequences ? samples * static_cast<double>(plan.seq_length) : samples;
  const auto left = std::lround(report.time.count() * (report.of - report.done));
  std::string line =
      fmt::format("step {} of {}", report.step, report.step + report.of - report.done);
  if (backend != BackendKind::synthetic) line += fmt::format("  loss {:.6f}", report.loss);
  if (report.gradient_norm) line += "  gradient norm " + format_figure(*report.gradient_norm, 4);
  if (report.time.count() > 0) {
    line +=
        fmt::format("  {:.0f} {}/s", units / report.time.count(), sequences ? "tokens" : "samples");
  }
  return line + (left < 60 ? fmt::format("  {} s left", left)
                           : fmt::format("  {} min {:02} s left", left / 60, left % 60));
}

}  // namespace

RunOptions run_options(const RunRequest& r, const ResolvedPlan& loaded, const Session& session,
                       bool leads) {
  RunOptions options = asked(r, session);
  check(r, options, session);
  if (leads) announce(loaded, options, session);
  if (options.backend == BackendKind::synthetic)
    wait_instead(options, synthetic_step(loaded, r.costs), session, leads);
  // A launcher sends signals to all processes: all listen, and the one that leads acts on them.
  if (r.stopping) static_cast<void>(r.stopping());
  if (leads) {
    options.on_step = [&session, &loaded, backend = options.backend](const StepReport& report) {
      session.progress(status_line(report, loaded.plan, backend), report.done, report.of);
    };
    options.stop = r.stopping;
  }
  return options;
}

}  // namespace weir::app

// Options of a run: files that it writes, contradictions, waits instead of work, who is told.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "exec/checkpoint/checkpoint.hpp"
#include "plan/words/figures.hpp"
#include "tools/app/machine/host.hpp"
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
  // The warm-up is part of the steps that were asked for.
  const int warmup = std::min(r.steps, r.warmup);
  return {.backend = parse_backend(r.backend),
          .steps = r.steps - warmup,
          .warmup_steps = warmup,
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
          .restart = r.restart,
          .hangs = r.hangs,
          .longest_action = Seconds(r.longest_action_s)};
}

// Whether a checkpoint, or a run's folder, is in `output`.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& output) {
  std::error_code none;  // what is not there is in no folder
  const auto whole = std::filesystem::weakly_canonical(path, none);
  const auto folder = std::filesystem::weakly_canonical(output, none);
  return std::ranges::mismatch(folder, whole).in1 == folder.end();
}

// A step of another run that is newer than all of this one's would be gone on from.
void require_own_checkpoints(const RunRequest& r) {
  if (r.restart || !holds_checkpoints(*r.output)) return;
  if (r.resume && is_within(*r.resume, *r.output)) return;
  throw UsageError(
      fmt::format("{} holds checkpoints of another run: --resume {} goes on with it, --restart "
                  "removes them, or name another folder",
                  r.output->string(), r.output->string()));
}

void check(const RunRequest& r, const RunOptions& options, const Session& session) {
  // What only another backend takes would be passed over.
  if (options.backend != BackendKind::cuda)
    session.refuse({"fastest", "launched"}, "is of --backend cuda");
  if (options.backend == BackendKind::synthetic) {
    session.refuse({"data"}, "is trained on: timed waits train nothing");
  } else {
    session.refuse({"costs"}, "gives --backend synthetic its durations: this one works");
  }
  static_cast<void>(written(r.picture, session));
  if (r.picture && (options.backend == BackendKind::synthetic || r.steps == 0))
    throw UsageError("--svg draws losses of steps that train: here are none");
  if (r.checkpoint_every > 0 && !r.output)
    throw UsageError("--checkpoint-every needs --output, the folder for checkpoints");
  if (r.restart && !r.output)
    throw UsageError("--restart needs --output, the folder whose checkpoints it removes");
  if (r.restart && r.resume)
    throw UsageError("--restart begins anew in --output, and --resume goes on: one of them");
  if (r.output) require_own_checkpoints(r);
}

void announce(const ResolvedPlan& loaded, const RunOptions& options, const Session& session) {
  say_need_of_run(loaded, options.steps, options.backend == BackendKind::cpu, session);
  if (options.steps == 0 && options.warmup_steps > 0) {
    session.note(
        fmt::format("no step is measured: all {} are warm-up (--warmup)", options.warmup_steps));
  }
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
  // At the pace of the last step.
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
  // Any process may be sent one: by its own host, or by a launcher that sends them to all.
  if (r.stopping) static_cast<void>(r.stopping());  // from here on it listens
  options.stop = r.stopping;
  if (leads) {
    options.note = session.note;
    options.fault = session.fault();
    options.on_step = [&session, &loaded, backend = options.backend](const StepReport& report) {
      session.progress(status_line(report, loaded.plan, backend), report.done, report.of);
    };
  }
  return options;
}

}  // namespace weir::app

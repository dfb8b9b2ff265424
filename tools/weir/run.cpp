// What people read of `weir run`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run.hpp"

#include <fmt/core.h>

#include "plan/words/figures.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/kernels_text.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

void print_devices(Printout& out, const std::vector<DeviceUse>& ranks) {
  out.say("{}; memory pools ", ranks.front().sharing);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    out.say("{}rank {} {}", rank == 0 ? "" : ", ", rank, format_bytes(ranks[rank].pool_peak));
  }
  if (!ranks.front().attention.empty()) out.say("; fused attention: {}", ranks.front().attention);
  if (!ranks.front().products.empty()) out.say("; {}", ranks.front().products);
  for (const Bytes outside : outside_the_pools(ranks)) {
    out.say("; {} outside them (context, libraries, others)", format_bytes(outside));
  }
  out.say("\n");
}

// For programs what lines say to people.
Table step_table(const RunResult& run, bool trains, int warmup) {
  Table table{{{"step"}, {"loss"}, {"gradient norm"}, {"time"}, left("note")}, {}, {}};
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepResult& step = run.steps[i];
    const auto known = [](const std::optional<double>& value) {
      return value ? number(*value, format_figure(*value, 4)) : Cell();
    };
    table.rows.push_back({run.first_step + static_cast<std::int64_t>(i),
                          trains ? known(step.loss) : Cell(), known(step.gradient_norm), step.time,
                          static_cast<int>(i) < warmup ? "warm-up" : ""});
  }
  return table;
}

void print_steps(Printout& out, const RunResult& run, bool trains, int warmup) {
  if (out.for_programs()) return out.show(step_table(run, trains, warmup));
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const char* kind = static_cast<int>(i) < warmup ? " (warm-up)" : "";
    const std::string loss = trains ? fmt::format("loss {:.6f}  ", run.steps[i].loss) : "";
    const std::optional<double> norm = run.steps[i].gradient_norm;
    out.say("step {:>3}  {}{}{}{}\n", run.first_step + static_cast<std::int64_t>(i), loss,
            norm ? fmt::format("gradient norm {}  ", format_figure(*norm, 4)) : "",
            format_duration(run.steps[i].time), kind);
  }
}

}  // namespace

void print(Printout& out, const app::RunRequest& request, const app::RunResult& result) {
  // One process speaks for all.
  if (!result.leads) return;
  const RunResult& run = result.run;
  const bool trains = result.backend != "synthetic";
  out.say("{} on {}{}\n", summary(result.plan.loaded.plan), result.backend,
          trains ? "" : " (timed waits, no training)");
  if (run.resumed) out.say("goes on from {}\n", run.resumed->string());
  print_steps(out, run, trains, request.warmup);
  for (const CheckpointWritten& written : run.checkpoints) {
    out.say("checkpoint {} in {}\n", written.folder.string(), format_duration(written.time));
  }
  if (run.evaluation) {
    out.say("evaluation loss {:.6f} over {} tokens\n", run.evaluation->loss,
            run.evaluation->tokens);
  }
  // With warm-up alone there is no measured step, and no median.
  const bool measured = static_cast<int>(run.steps.size()) > request.warmup;
  if (measured) out.say("median step {}", format_duration(run.step_time));
  for (std::size_t rank = 0; rank < run.peak_memory.size(); ++rank) {
    const char* first = measured ? ", peak memory " : "peak memory ";
    out.say("{}rank {} {}", rank == 0 ? first : ", ", rank, format_bytes(run.peak_memory[rank]));
  }
  out.say("\n");
  if (!run.devices.empty()) print_devices(out, run.devices);
  if (run.host_per_action) {
    out.say("host time to launch an action {:.2f} us{}\n", run.host_per_action->count() * 1e6,
            run.graph ? " (the step is one graph)" : "");
  }
  if (!run.parameters_sha256.empty()) out.say("parameters {}\n", run.parameters_sha256);
  if (run.kernels) out.say("{}", kernels_text(run.trace, *run.kernels));
  if (request.output) out.say("{}\n", request.output->string());
}

}  // namespace weir

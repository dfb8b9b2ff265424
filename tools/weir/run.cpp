// What people read of `weir run`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run.hpp"

#include <fmt/core.h>

#include "tools/app/plan_fields.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/kernels_text.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

void print_devices(const std::vector<DeviceUse>& ranks) {
  say("{}; memory pools ", ranks.front().sharing);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    say("{}rank {} {}", rank == 0 ? "" : ", ", rank, format_bytes(ranks[rank].pool_peak));
  }
  if (!ranks.front().attention.empty()) say("; fused attention: {}", ranks.front().attention);
  for (const Bytes outside : outside_the_pools(ranks)) {
    say("; {} outside them (context, libraries, others)", format_bytes(outside));
  }
  say("\n");
}

}  // namespace

void print(const app::RunRequest& request, const app::RunResult& result) {
  if (!result.leads) return;
  const RunResult& run = result.run;
  say("{} on {}{}\n", summary(result.plan.loaded.plan), result.backend,
      result.backend == "synthetic" ? " (timed waits, no training)" : "");
  if (run.resumed) say("goes on from {}\n", run.resumed->string());
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const char* kind = static_cast<int>(i) < request.warmup ? " (warm-up)" : "";
    say("step {:>3}  loss {:.6f}  {}{}\n", run.first_step + static_cast<std::int64_t>(i),
        run.steps[i].loss, format_duration(run.steps[i].time), kind);
  }
  for (const CheckpointWritten& written : run.checkpoints) {
    say("checkpoint {} in {}\n", written.folder.string(), format_duration(written.time));
  }
  if (run.evaluation) {
    say("evaluation loss {:.6f} over {} tokens\n", run.evaluation->loss, run.evaluation->tokens);
  }
  if (!run.steps.empty()) say("median step {}", format_duration(run.step_time));
  for (std::size_t rank = 0; rank < run.peak_memory.size(); ++rank) {
    const char* first = run.steps.empty() ? "peak memory " : ", peak memory ";
    say("{}rank {} {}", rank == 0 ? first : ", ", rank, format_bytes(run.peak_memory[rank]));
  }
  say("\n");
  if (!run.devices.empty()) print_devices(run.devices);
  if (run.host_per_action) {
    say("host time to launch an action {:.2f} us{}\n", run.host_per_action->count() * 1e6,
        request.graphs ? " (the step is one graph)" : "");
  }
  if (!run.parameters_sha256.empty()) say("parameters {}\n", run.parameters_sha256);
  if (run.kernels) say("{}", kernels_text(run.trace, *run.kernels));
  if (request.output) say("{}\n", request.output->string());
}

}  // namespace weir

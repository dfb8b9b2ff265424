// The files of PyTorch's profiler joined to the plan they are of.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/kineto_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "costmodel/links/transfer_fit.hpp"
#include "costmodel/table/device_kind.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "traces/kineto/kineto.hpp"

namespace weir::app {
namespace {

void log_found(const KinetoTrace& found, const Session& session) {
  for (std::size_t r = 0; r < found.ranks.size(); ++r) {
    const KinetoRank& rank = found.ranks[r];
    session.log(fmt::format("rank {}: {} (global rank {}), {}, clock moved by {}", r, rank.file,
                            rank.global_rank,
                            rank.named ? "actions named" : "actions unnamed, matched in order",
                            format_duration(to_seconds(rank.clock_offset))));
  }
  if (found.on_host) {
    session.log(fmt::format("{} steps, of the CPU's operators and gloo's messages",
                            found.trace.steps.size()));
  } else {
    session.log(fmt::format(
        "{} steps; the ends of a message {} apart in the median once clocks are aligned",
        found.trace.steps.size(), format_duration(to_seconds(found.alignment_error))));
  }
  for (const std::string& note : found.notes) session.log(note);
}

}  // namespace

PlannedTrace load_kineto_run(const KinetoOptions& options,
                             const std::vector<std::filesystem::path>& files,
                             const Session& session) {
  if (options.save_trace && options.save_trace->extension() != ".json")
    throw UsageError("--save-trace: expected a name that ends in .json");
  PlacedPlan plan = load(options.plan, session);
  // PyTorch has no such messages, so no profile of it can be of this plan.
  if (plan.loaded.plan.skips == SkipTransport::direct)
    throw InputError(name_of(options.plan), "skips", "direct: PyTorch's stages hand skips on");
  KinetoTrace found = read_kineto(plan.loaded.program, files);
  log_found(found, session);
  // The plan goes with the trace, its paths as seen from there.
  if (options.save_trace) {
    const auto file = std::filesystem::absolute(session.output(*options.save_trace));
    save_traced_plan(found.trace, moved_to(plan, file.parent_path()), file.parent_path(),
                     {file.parent_path(), file.stem().string()}, session);
  }
  return {std::move(found.trace), std::move(plan)};
}

void require_recorded_on(const Device& device, const PlannedTrace& run) {
  const auto found = run.trace.info.find("device");
  if (found == run.trace.info.end()) return;
  const bool on_cpus = found->second == kKinetoHost;
  if (on_cpus ? !is_gpu(device) : may_be(found->second, device)) return;
  throw InputError("traces", on_cpus ? "traceEvents" : "deviceProperties.name",
                   fmt::format("they were recorded on {}, the cluster has {}: give the --cluster "
                               "they are of",
                               found->second, device.name));
}

void fit_link_of_run(const PlannedTrace& run, Costs& costs, const Session& session) {
  const TransferFit fit = fit_transfers(run.plan->loaded, run.trace, costs.link);
  costs.link = fit.link;
  if (fit.messages == 0) return;
  session.log(
      fmt::format("link: {} + bytes / ({}/s) from {} messages of {} sizes, median residual {:.1f}%",
                  format_duration(fit.link.latency),
                  format_bytes(Bytes(std::llround(fit.link.bandwidth.count()))), fit.messages,
                  fit.sizes, fit.median_residual * 100));
}

}  // namespace weir::app

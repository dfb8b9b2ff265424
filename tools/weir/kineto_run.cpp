// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/kineto_run.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <utility>

#include "costmodel/links/transfer_fit.hpp"
#include "plan/words/error.hpp"
#include "traces/kineto/kineto.hpp"

namespace weir {
namespace {

void print_found(const KinetoTrace& found) {
  for (std::size_t r = 0; r < found.ranks.size(); ++r) {
    const KinetoRank& rank = found.ranks[r];
    fmt::print(stderr, "rank {}: {} (global rank {}), {}, clock moved by {}\n", r, rank.file,
               rank.global_rank, rank.named ? "actions named" : "actions unnamed, matched in order",
               format_duration(to_seconds(rank.clock_offset)));
  }
  fmt::print(stderr,
             "{} steps; the ends of a message {} apart in the median once clocks are aligned\n",
             found.trace.steps.size(), format_duration(to_seconds(found.alignment_error)));
  for (const std::string& note : found.notes) fmt::print(stderr, "{}\n", note);
}

}  // namespace

void add_kineto_options(CLI::App& command, KinetoOptions& options) {
  auto* plan = command.add_option("--plan", options.plan,
                                  "The plan that PyTorch ran: the traces are its profiler's");
  command
      .add_option("--save-trace", options.save_trace,
                  "Keep the measured trace (.json, for weir compare)")
      ->needs(plan);
}

TracedPlan load_kineto_run(const KinetoOptions& options,
                           const std::vector<std::filesystem::path>& files,
                           const GlobalOptions& global) {
  if (options.save_trace && options.save_trace->extension() != ".json")
    throw UsageError("--save-trace: expected a name that ends in .json");
  ResolvedPlan loaded = load_plan(*options.plan);
  KinetoTrace found = read_kineto(loaded.program, files);
  if (!global.quiet) print_found(found);
  if (options.save_trace) {
    const std::filesystem::path folder =
        std::filesystem::absolute(*options.save_trace).parent_path();
    save_traced_plan(found.trace, loaded, options.plan->parent_path(), folder,
                     options.save_trace->stem().string());
  }
  return {std::move(loaded), std::move(found.trace)};
}

void fit_link_of_run(const TracedPlan& run, Costs& costs, const GlobalOptions& global) {
  const TransferFit fit = fit_transfers(run.plan, run.trace, costs.link);
  costs.link = fit.link;
  if (global.quiet || fit.messages == 0) return;
  fmt::print(stderr,
             "link: {} + bytes / ({}/s) from {} messages of {} sizes, median residual {:.1f}%\n",
             format_duration(fit.link.latency),
             format_bytes(Bytes(std::llround(fit.link.bandwidth.count()))), fit.messages, fit.sizes,
             fit.median_residual * 100);
}

}  // namespace weir

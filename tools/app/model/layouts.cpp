// Layouts of einsums, derived and run.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/layouts.hpp"

#include <fmt/format.h>

#include <utility>

#include "exec/device/cores.hpp"

namespace weir::app {
namespace {

LayoutRunRequest run_request(const LayoutsRequest& r, std::uint64_t seed) {
  return {.file = r.file->string(),
          .workers = r.workers == 0 ? available_cores() : r.workers,
          .rounds = r.rounds,
          .seed = seed};
}

}  // namespace

Fields run_fields(LayoutsRequest& r) {
  return {
      {"--run", &r.run,
       "Run the layouts on this machine's cores, beside the prediction; with --devices the five "
       "that a search finds fastest"},
      {"--workers",
       &r.workers,
       "With --run: processors of the mesh to run on (default: all cores)",
       {.range = kWorkers}},
      {"--rounds", &r.rounds, "With --run: interleaved steps of each layout", {.range = kRounds}}};
}

LayoutsResult layouts(layout::LayoutFile file, const LayoutsRequest& r, std::uint64_t seed,
                      const Session& session) {
  LayoutsResult result{.file = std::move(file), .request = run_request(r, seed)};
  if (!r.run) return result;
  LayoutRunRequest& request = result.request;
  request.progress = [&session](int done, int of) { session.progress("run", done, of); };
  result.run = run_layouts(result.file, request);
  if (result.run->oversubscribed) {
    session.note(
        fmt::format("{} workers on {} cores: oversubscribed", request.workers, available_cores()));
  }
  return result;
}

}  // namespace weir::app

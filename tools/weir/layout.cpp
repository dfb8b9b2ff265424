// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/layout.hpp"

#include <fmt/core.h>

#include <optional>

#include "exec/device/cores.hpp"
#include "exec/run/run.hpp"
#include "plan/layout/read.hpp"
#include "plan/words/error.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/layout_run.hpp"
#include "tools/weir/layout_text.hpp"
#include "tools/weir/progress.hpp"

namespace weir {
namespace {

constexpr int kMostWorkers = 256;
constexpr int kMostRounds = 10'000;

LayoutRunRequest checked(const LayoutOptions& options, std::uint64_t seed) {
  LayoutRunRequest request;
  request.file = options.file.string();
  request.workers = options.workers == 0 ? available_cores() : options.workers;
  request.rounds = options.rounds;
  request.seed = seed;
  if (request.workers < 1 || request.workers > kMostWorkers) {
    throw UsageError(fmt::format("--workers {}: expected 1 to {}", options.workers, kMostWorkers));
  }
  if (request.rounds < 1 || request.rounds > kMostRounds) {
    throw UsageError(fmt::format("--rounds {}: expected 1 to {}", options.rounds, kMostRounds));
  }
  return request;
}

}  // namespace

void layout_command(const LayoutOptions& options, const GlobalOptions& global) {
  LayoutRunRequest request = checked(options, global.seed);
  const layout::LayoutFile file = layout::load_layouts(options.file);
  std::optional<LayoutRunResult> result;
  if (options.run) {
    ProgressBar bar("run", !global.quiet);
    request.progress = [&](int done, int of) { bar.show(done, of); };
    result = run_layouts(file, request);
  }
  if (result && result->oversubscribed) {
    fmt::print(stderr, "weir: {} workers on {} cores: oversubscribed\n", request.workers,
               available_cores());
  }
  if (global.json) {
    print_layouts_json(file, request, result);
  } else {
    print_layouts(file);
    if (result) print_layout_run(file, request, *result);
  }
}

}  // namespace weir

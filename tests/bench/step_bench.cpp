// What the tracer costs: training steps of the quickstart's model with and without it, interleaved;
// K = 2, M = 8.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "exec/cpu/cpu_backend.hpp"
#include "exec/run/run.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"

namespace {

using namespace weir;

void step(benchmark::State& state) {
  const std::filesystem::path folder = WEIR_SOURCE_DIR "/tools/examples/models";
  Plan plan;
  plan.model_path = "gpt2-mini.json";
  plan.model_sha256 = sha256_hex(read_text_file(folder / plan.model_path));
  plan.seq_length = 256;
  plan.pp = 2;
  plan.microbatches = 8;
  plan.boundaries = {4};
  plan.schedule = "1f1b";
  const ResolvedPlan loaded = resolve(plan, folder);
  RunOptions options;
  options.trace = state.range(0) != 0;
  options.steps = 5;
  for (auto _ : state)
    state.SetIterationTime(
        run(loaded, options, {{BackendKind::cpu, make_cpu_backend}}).step_time.count());
}
BENCHMARK(step)
    ->ArgName("trace")
    ->Arg(0)
    ->Arg(1)
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

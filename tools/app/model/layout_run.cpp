// Rates and layouts are measured in the same rounds, in a fresh random order each, so that a
// machine that slows down slows all of them. The rates are those of shapes of the probe's own,
// never of the layouts that they predict.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/layout_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "exec/device/cores.hpp"
#include "plan/layout/mesh_factors.hpp"
#include "plan/words/error.hpp"
#ifdef WEIR_HAS_CPU_BACKEND
#include "exec/cpu/layout/mesh_run.hpp"
#include "exec/cpu/layout/probe.hpp"
#include "exec/run/run.hpp"
#include "tools/app/model/interleaved.hpp"
#include "tools/app/model/run_memory.hpp"
#endif

namespace weir {
namespace {

#ifdef WEIR_HAS_CPU_BACKEND

LayoutRates rates_of(const cpu::MeshProbe& probe,
                     const std::vector<cpu::MeshProbe::Sample>& samples) {
  using Probe = cpu::MeshProbe;
  const double flops = 2.0 * Probe::kEdge * Probe::kEdge * Probe::kEdge;
  LayoutRates rates;
  rates.products = FlopsPerSecond(flops / median_of(samples, &Probe::Sample::product).count());
  rates.elementwise_per_s =
      2.0 * Probe::kElements / median_of(samples, &Probe::Sample::elementwise).count();
  const Seconds small = median_of(samples, &Probe::Sample::small_reduce);
  const Seconds large = median_of(samples, &Probe::Sample::large_reduce);
  // Two sizes, two unknowns: the small one is latency, the difference is bandwidth.
  const auto bytes = static_cast<double>(probe.exchanged(Probe::kElements).count() -
                                         probe.exchanged(Probe::kFew).count());
  rates.all_reduce_latency = small;
  rates.all_reduce_bandwidth = BytesPerSecond(bytes / std::max(1e-9, (large - small).count()));
  // Wall time beyond the thread's own is waiting for the others.
  rates.all_reduce_wait =
      std::max(Seconds(0), median_of(samples, &Probe::Sample::small_wall) - small);
  return rates;
}

// What one worker counted, as the formula's type; the exchange is a mean, as blocks may divide
// unevenly.
LayoutNumbers counted(const cpu::MeshRun& run) {
  LayoutNumbers numbers;
  for (const cpu::MeshCounts& counts : run.counts()) {
    numbers.exchanged_elements +=
        static_cast<double>(counts.exchanged_elements) / static_cast<double>(run.counts().size());
  }
  // All else is counted alike on every worker: one speaks for all.
  const cpu::MeshCounts& first = run.counts().front();
  numbers.multiply_adds = static_cast<double>(first.multiply_adds);
  numbers.all_reduces = static_cast<int>(first.all_reduces);
  numbers.reduced_elements = static_cast<double>(first.reduced_elements);
  numbers.memory = first.memory;
  return numbers;
}

// Where fp32 rounds, sums of another order differ by their rounding, and a relu near zero may fall
// on the other side.
constexpr double kTolerance = 1e-3;

void check(const LayoutRunRow& row, const layout::Program& program, bool rounds_nowhere) {
  const std::string where = fmt::format("layout {} on {}", row.layout.name, mesh_text(row.layout));
  // Sums in another order round differently, unless every number is exact.
  if (!(row.difference <= (rounds_nowhere ? 0 : kTolerance))) {
    throw RunFailed(fmt::format("{}: the result differs from the unsplit one by {:.1e}", where,
                                row.difference));
  }
  if (row.counted.multiply_adds != row.formula.multiply_adds ||
      row.counted.all_reduces != row.formula.all_reduces ||
      row.counted.reduced_elements != row.formula.reduced_elements) {
    throw RunFailed(
        fmt::format("{}: {} multiply-adds and {} reduced elements counted, {} and {} derived",
                    where, row.counted.multiply_adds, row.counted.reduced_elements,
                    row.formula.multiply_adds, row.formula.reduced_elements));
  }
  // Each tensor is rounded up to 64 bytes.
  const auto rounding = static_cast<std::int64_t>(64 * program.tensors.size());
  if (row.counted.memory < row.formula.memory ||
      row.counted.memory > row.formula.memory + Bytes(rounding)) {
    throw RunFailed(fmt::format("{}: {} bytes held, {} derived", where, row.counted.memory.count(),
                                row.formula.memory.count()));
  }
}

std::unique_ptr<cpu::MeshRun> mesh_run(const layout::LayoutFile& file, const layout::Layout& layout,
                                       cpu::Workers& workers, const LayoutRunRequest& request) {
  try {
    return std::make_unique<cpu::MeshRun>(file.program, layout, workers, request.seed);
  } catch (const std::invalid_argument& why) {
    throw InputError(request.file, "einsums", why.what());
  }
}

layout::Layout nowhere(const layout::Program& program) {
  return {"unsplit", {{"one", "one", 1}}, std::vector<int>(program.dimensions.size(), -1)};
}

// Blocks, and as much again at most as the largest of them: where a product is made apart that is
// then added. The libraries' room is little.
double run_bytes(const layout::Program& program, const layout::Layout& layout) {
  double largest = 0;
  for (const layout::NamedTensor& tensor : program.tensors) {
    double elements = 1;
    for (const std::int64_t size : local_shape(program, layout, tensor))
      elements *= static_cast<double>(size);
    largest = std::max(largest, elements);
  }
  const auto blocks = static_cast<double>(layout_numbers(program, layout).memory.count());
  return static_cast<double>(processors(layout)) * (blocks + 4 * largest);
}

void compare_with_unsplit(const layout::LayoutFile& file, const LayoutRunRequest& request,
                          const std::vector<std::unique_ptr<cpu::MeshRun>>& runs,
                          std::vector<LayoutRunRow>& rows) {
  // The same program on one worker, split nowhere: the truth that all are held against.
  cpu::Workers one(1);
  const auto whole = mesh_run(file, nowhere(file.program), one, request);
  static_cast<void>(whole->step());
  for (std::size_t r = 0; r < runs.size(); ++r) rows[r].difference = runs[r]->difference(*whole);
}

#endif

}  // namespace

std::vector<layout::Layout> on_workers(const layout::Layout& layout, int workers) {
  std::vector<layout::Layout> all;
  // The first dimension's largest size first.
  const auto factors = layout::ordered_factors(workers, layout.mesh.size());
  for (auto sizes = factors.rbegin(); sizes != factors.rend(); ++sizes) {
    all.push_back(layout);
    for (std::size_t m = 0; m < sizes->size(); ++m) all.back().mesh[m].size = (*sizes)[m];
  }
  return all;
}

#ifndef WEIR_HAS_CPU_BACKEND
LayoutRunResult run_layouts(const layout::LayoutFile&, const LayoutRunRequest&) {
  throw MissingComponent("this build has no CPU backend to run layouts on");
}
#else
LayoutRunResult run_layouts(const layout::LayoutFile& file, const LayoutRunRequest& request) {
  cpu::Workers workers(request.workers);
  cpu::MeshProbe probe(workers);
  LayoutRunResult result;
  std::vector<std::unique_ptr<cpu::MeshRun>> runs;
  std::vector<RunNeed> needs;
  for (const layout::Layout& written : file.layouts) {
    for (layout::Layout& layout : on_workers(written, request.workers)) {
      if (const auto why = illegal(file.program, layout)) {
        throw InputError(request.file, "layouts",
                         fmt::format("{} on {} workers: {}", layout.name, request.workers, *why));
      }
      LayoutRunRow row;
      row.formula = layout_numbers(file.program, layout);
      needs.push_back({fmt::format("{} ({})", layout.name, rules_text(file.program, layout)),
                       run_bytes(file.program, layout)});
      row.layout = std::move(layout);
      result.rows.push_back(std::move(row));
    }
  }
  require_memory(needs, run_bytes(file.program, nowhere(file.program)));
  // Legal layouts are all built before the first is timed.
  for (const LayoutRunRow& row : result.rows)
    runs.push_back(mesh_run(file, row.layout, workers, request));
  std::vector<std::vector<cpu::MeshTimes>> times(runs.size());
  std::vector<cpu::MeshProbe::Sample> samples;
  interleaved(
      runs.size(), {request.rounds, request.seed, request.progress},
      [&](bool counts) {
        const cpu::MeshProbe::Sample sample = probe.measure();
        if (counts) samples.push_back(sample);
      },
      [&](std::size_t run, bool counts) {
        const cpu::MeshTimes step = runs[run]->step();
        if (counts) times[run].push_back(step);
      });
  result.oversubscribed = request.workers > available_cores();
  result.rates = rates_of(probe, samples);
  result.rounds_nowhere = cpu::rounds_nowhere(file.program);
  compare_with_unsplit(file, request, runs, result.rows);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    LayoutRunRow& row = result.rows[r];
    row.counted = counted(*runs[r]);
    row.predicted = layout_time(row.formula, result.rates);
    row.measured.products = median_of(times[r], &cpu::MeshTimes::products);
    row.measured.elementwise = median_of(times[r], &cpu::MeshTimes::elementwise);
    row.measured.all_reduces = median_of(times[r], &cpu::MeshTimes::all_reduces);
    const Seconds step = median_of(times[r], &cpu::MeshTimes::step);
    // What is left of the step is time at the barriers.
    row.measured.waiting = step - row.measured.work();
    std::vector<double> steps;
    for (const cpu::MeshTimes& time : times[r]) {
      steps.push_back(time.step.count());
      result.preemptions += static_cast<double>(time.preemptions) /
                            static_cast<double>(times.size() * times[r].size()) / request.workers;
    }
    row.spread = spread_of(std::move(steps));
    check(row, file.program, result.rounds_nowhere);
  }
  return result;
}
#endif

}  // namespace weir

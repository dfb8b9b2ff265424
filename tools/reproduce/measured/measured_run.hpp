// Measured runs of real clusters: what was trained on which machine by which software, how long a
// step took and what memory it held; and Weir's forecast of the same run by built-in costs.
//
// Start at `measured_sources()`; each source is a file of its own, which says what its columns
// mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"
#include "sim/forecast/unnamed_software.hpp"
#include "tools/reproduce/published.hpp"

namespace weir {

// Which memory a source measured.
enum class MemoryReading : std::uint8_t {
  reserved_first_rank,  // by the caching allocator on rank 0, without the process's own
  fullest_device,  // all that is taken of the fullest device, the process's own too (nvidia-smi)
  fullest_rank,    // by the caching allocator on the fullest rank, without the process's own
};
[[nodiscard]] std::string_view to_string(MemoryReading reading);

// A step's time as it was printed: `work` times the seconds, or `work` over them where a rate was.
struct PrintedStep {
  std::string quantity;  // "step, s", "tokens/s a GPU"
  Printed printed;
  double work = 1;
  bool rate = false;

  [[nodiscard]] double seconds() const {
    return rate ? work / printed.value : printed.value / work;
  }
  [[nodiscard]] double printed_of(Seconds step) const {
    return rate ? work / step.count() : work * step.count();
  }
};

struct MeasuredRun {
  std::string source;  // of measured_sources()
  std::string row;     // "3B d=8 t=2 p=4 b=1 M=32 zero=1"
  std::string model_name;
  std::string grid;  // runs of one grid differ in layout only; empty: of none
  std::shared_ptr<const Model> model;
  Plan plan;
  Cluster cluster;  // as many nodes as the run's devices fill, with its stack
  // Where no software is named: what may have run it; null: the stack is its own.
  std::shared_ptr<const std::vector<Stack>> software;
  std::optional<PrintedStep> step;
  std::optional<Printed> memory_gib;
  MemoryReading reading = MemoryReading::fullest_rank;
  bool failed = false;     // crashed or out of memory: no time, no memory
  std::string unhealthy;   // why its time is not that of a healthy machine; empty: it is
  std::string unforeseen;  // why there is no forecast of it; empty: there is
};

// Whether a plan fits on every rank: may, where the expectation does and the upper bound does not.
enum class Fit : std::uint8_t { yes, maybe, no };

struct RunForecast {
  std::string refusal;  // why there is none; empty: there is
  Seconds step{0};
  double memory_gib = 0;                             // as the run's reading has it
  double memory_least_gib = 0, memory_most_gib = 0;  // the stated band about it
  Fit fit = Fit::yes;
  std::optional<StepRange> range;  // by the software that may have run it
};
[[nodiscard]] RunForecast forecast_run(const MeasuredRun& run);
// Told of `done` of `of` forecasts, from any thread; what it throws ends them.
using ForecastProgress = std::function<void(int done, int of)>;
// The same for all, on the cores there are.
[[nodiscard]] std::vector<RunForecast> forecast_runs(std::span<const MeasuredRun> runs,
                                                     const ForecastProgress& progress = {});

// Gives the run the machine of tools/examples/clusters and the stack of tools/examples/stacks with
// as many nodes as the plan's devices fill.
void set_machine(MeasuredRun& run, const std::string& cluster, const std::string& stack);
// Products of its blocks in 8 bits, with scales as `recipe` finds them. After its machine and
// model.
void set_products(MeasuredRun& run, Fp8Recipe recipe);
// By what Megatron-Bridge's tables call it: FP8 is of each tensor itself ("FP8-CS" in 25.11), MXFP8
// also "FP8-MX"; whatever else is not 16 bits is priced as the first.
[[nodiscard]] Fp8Recipe bridge_recipe(const std::string& precision);
// Stages as the stack places them; where it cannot, the run is not forecast.
void place_stages(MeasuredRun& run);

struct MeasuredSource {
  std::string_view name;
  std::string_view table;  // file name
  std::vector<MeasuredRun> (*read)(const Publications&);
};
[[nodiscard]] std::span<const MeasuredSource> measured_sources();

// Each in its file.
[[nodiscard]] std::vector<MeasuredRun> read_playbook(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_papers(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_bloom(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_mlperf(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_primus(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_torchtitan(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_llm_foundry(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_sailor(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_megatron_bridge(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_nemo(const Publications& published);
[[nodiscard]] std::vector<MeasuredRun> read_dgx_cloud(const Publications& published);
// Of no group of `measured_sources()`: no interval is made of their errors.
[[nodiscard]] std::vector<MeasuredRun> read_megatron_bridge_experts(const Publications& published);

}  // namespace weir

// What is forecast of one step of a plan (weir.forecast/1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/goodput.hpp"
#include "costmodel/memory/fits.hpp"
#include "costmodel/memory/host_memory.hpp"
#include "costmodel/memory/memory.hpp"
#include "costmodel/table/costs.hpp"
#include "costmodel/table/device_kind.hpp"
#include "plan/words/price.hpp"
#include "sim/jitter.hpp"
#include "traces/metrics.hpp"

namespace weir {

// Whose errors set the interval of built-in costs: measured runs on other clusters and stacks.
struct IntervalSource {
  int rows = 0;
  int clusters = 0;
  int stacks = 0;
};

struct StepInterval {
  Seconds low{0};
  Seconds high{0};
  double nominal = 0.9;  // probability that the step lies within
};

// What failures leave of the time, if asked for.
struct GoodputForecast {
  Reliability reliability;
  CheckpointPlan checkpoints;
};

struct Forecast {
  Basis basis = Basis::builtin;
  std::string stack;  // the software that is forecast, by name; empty: durations were given
  Seconds step_time{0};
  std::optional<StepInterval> interval;  // of what was timed here only inside the calibrated range
  std::optional<IntervalSource> interval_source;  // of what is built in, as it is or anchored
  StepMetrics metrics;
  Seconds lower_bound{0};
  std::vector<RankMemory> memory;  // per rank; empty where nothing is known of bytes
  // Where nobody named the software: per rank what the leanest in use would hold, while
  // RankMemory::upper is the amplest's; else empty.
  std::vector<Bytes> leanest;
  std::vector<std::int32_t>
      peak_in_flight;  // per rank: stage-micro-batches, from the start of F to the end of W or B
  int devices = 1;     // tp x cp x dp for each rank; ranks are one device of them
  // Where ranks take turns on fewer: how many there are, which hours and money are of.
  std::optional<int> shared_devices;
  DeviceKind device_kind = DeviceKind::other;
  std::optional<Price> price_per_hour;    // of all these devices together, where the cluster says
  std::optional<double> training_tokens;  // of a whole training, where one was asked about
  std::optional<double> samples_per_s;
  std::optional<double> tokens_per_s;
  std::optional<double> model_tflops_per_device;
  std::optional<double> mfu;
  std::optional<Bytes> memory_limit;
  // What the devices of each rank have, where they are not all of one kind; the lower of the two
  // limits holds.
  std::vector<Bytes> rank_memory_limits;
  std::optional<HostHeld> host;  // of the fullest node; none: nothing is kept with hosts
  std::optional<StepDistribution> distribution;  // of the step time, by simulated jitter
  double jitter_spread = 0;  // its spread_of_median, for the interval; 0: jitter is not known
  std::optional<Seconds> without_barrier;  // mean time of many steps that overlap
  std::optional<GoodputForecast> goodput;
  std::vector<std::string> warnings;

  [[nodiscard]] Bytes peak_memory() const;                   // of the fullest rank
  [[nodiscard]] Bytes peak_memory(MemoryCount count) const;  // as a tool counts it
  [[nodiscard]] Bytes peak_memory_upper() const;             // of the rank where it is highest
  [[nodiscard]] std::optional<Bytes> memory_limit_of(std::size_t rank) const;
  // Whether every rank stays within its limit and every host within its memory, and how probably:
  // the worst one's. Of devices certain where there is no limit, or nothing is known of bytes.
  [[nodiscard]] Fits fits() const { return std::max(devices_fit(), host_fits()); }
  [[nodiscard]] Fits devices_fit() const;
  [[nodiscard]] Fits host_fits() const { return host ? host->fits() : Fits::yes; }
  [[nodiscard]] double fits_probability() const;
  // What a host holds, where that alone is too much.
  [[nodiscard]] std::optional<HostHeld> host_too_full() const {
    return devices_fit() != Fits::no && host_fits() == Fits::no ? host : std::nullopt;
  }
  [[nodiscard]] bool may_fit() const { return fits() != Fits::no; }
};

}  // namespace weir

// Costs: what is known about how long layers, messages and updates take on one machine. Filled by
// `weir profile` (measured), refined by `weir calibrate` from traces (calibrated), or built in by
// device name (builtin). Schema weir.costs/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/units.hpp"

namespace weir {

// One layer, one micro-batch of a given size. Medians of measured repetitions.
struct LayerTime {
  Seconds f{0};
  Seconds i{0};
  Seconds w{0};
  Seconds b{0};       // full backward, measured as a whole
  double spread = 0;  // interquartile range of f over its median
  Bytes scratch{0};   // library scratch memory the backend asked for beyond layer_tensors
  Seconds core{0};    // of f: what selective re-materialisation does again; 0: not known apart
};

struct LayerCost {
  std::string key;  // layer_key(): the full shape, so equal keys mean equal work
  std::map<int, LayerTime>
      by_batch;          // micro-batch size -> times; interpolated between, flagged outside
  Seconds optimizer{0};  // update of this layer's parameters, once a step
};

// Multiplicative corrections learnt from traces, per action kind; 1 when nothing was learnt.
struct Correction {
  double f = 1, b = 1, i = 1, w = 1, r = 1, optimizer = 1;
};

// The same for all passes of a micro-batch size: micro-batch size -> factor. A running pipeline
// treats small and large micro-batches differently from the loop that measured their layers.
using SizeCorrection = std::map<int, double>;
// Between sizes interpolated, log factor over log size; beyond them that of the nearest; 1 where
// nothing was learnt.
[[nodiscard]] double factor_at(const SizeCorrection& correction, int micro_batch_size);

// How far forecasts may be off (costmodel/fit/intervals): |log(measured / predicted)| of a plan is
// at most `quantile` times the plan's scale, which joins what the model misses with what the plan's
// own jitter does to its step time.
struct IntervalModel {
  double nominal = 0.9;
  double quantile = 0;
  double model_spread = 0;    // median |log(measured / predicted)| of the plans that were fitted
  int calibration_plans = 0;  // that set the quantile
};

// What the runs behind a calibration covered; beyond it there is no interval. Micro-batch sizes are
// covered layer by layer (LayerCost::by_batch).
struct CalibratedRange {
  int pp_low = 0, pp_high = 0;  // K; 0: nothing was run
  int microbatches_low = 0, microbatches_high = 0;
  std::vector<std::string> schedules;  // names, sorted

  bool operator==(const CalibratedRange&) const = default;
};
[[nodiscard]] CalibratedRange widened(CalibratedRange range, const Plan& plan);
// Why a plan lies outside ("K = 4 was never run, only 1 to 2"), with the one run that would narrow
// it; nullopt: inside.
[[nodiscard]] std::optional<std::string> outside(const CalibratedRange& range, const Plan& plan);

// How the durations of one kind of action scatter about their median: quantiles of duration /
// median, evenly spaced from 0 to 1, ascending. Empty or absent: not known.
using Jitter = std::map<ActionKind, std::vector<double>>;

// Fractions of speed lost while a transfer and compute overlap on a rank; fitted from traces where
// they show it.
struct OverlapSlowdown {
  double compute = 0;
  double transfer = 0;
};

struct Costs {
  Basis basis = Basis::builtin;
  std::string machine;  // "Intel Xeon ..., 2 cores" or a device name
  std::string backend;  // "cpu", "cuda"
  std::string origin;   // how and when it was obtained
  std::int64_t seq_length = 0;
  Dtype dtype = Dtype::fp32;
  std::vector<LayerCost> layers;
  Link link;                 // between ranks of this machine
  Seconds host_overhead{0};  // before every compute action
  Seconds step_overhead{0};  // between the last operation and the end of the step (barrier)
  Correction
      alone;  // times of a device whose neighbours are idle, over those of a busy machine (K = 1)
  Correction correction;   // learnt by calibrate
  SizeCorrection by_size;  // learnt by calibrate, beside `correction`; not the optimizer's
  std::optional<IntervalModel> interval;
  std::optional<CalibratedRange> range;  // of calibrated costs
  Jitter jitter;                         // of calibrated costs
  OverlapSlowdown overlap;
};

// A text that holds everything that decides a layer's work: kind, shape, sequence length, number
// format, and how it is split among devices where it is.
[[nodiscard]] std::string layer_key(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                    const Split& split = {});

[[nodiscard]] Costs load_costs(const std::filesystem::path& file);
void save_costs(const Costs& costs, const std::filesystem::path& file);

// Costs of a known device before anything was measured: kernel by kernel where the cluster says how
// well its GPU runs them (Device::kernels), also of layers divided as in `splits`; otherwise whole
// layers at rough shares of its rates.
[[nodiscard]] Costs builtin_costs(const Model& model, std::int64_t seq_length, Dtype dtype,
                                  const Cluster& cluster,
                                  const std::vector<Split>& splits = {Split{}});

struct CostTableResult {
  CostTable table;
  std::vector<Bytes> scratch;  // per rank: library scratch memory, for memory_peaks
  bool inside_range = true;    // every layer and micro-batch size lies within what was measured
  std::vector<std::string> warnings;  // what was extrapolated, one line each
};

// Stage costs of a plan, of one device of each stage. A split layer that the costs do not have
// takes the whole layer's time divided by tp and cp, with a warning; to that comes what it sends
// (costmodel/links/parallel). Throws InputError when a layer of the model is not in the costs.
[[nodiscard]] CostTableResult cost_table(const ResolvedPlan& loaded, const Costs& costs,
                                         const Cluster& cluster);

}  // namespace weir

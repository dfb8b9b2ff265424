// Costs: what is known about how long layers, messages and updates take on one machine. Filled by
// `weir profile` (measured), refined by `weir calibrate` from traces (calibrated), built in by
// device name (builtin), or that scaled by measured steps (anchored). Schema weir.costs/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/layers/layer_time.hpp"
#include "costmodel/table/anchor.hpp"
#include "costmodel/table/calibrated_range.hpp"
#include "costmodel/table/correction.hpp"
#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/interval_model.hpp"
#include "costmodel/table/jitter.hpp"
#include "costmodel/table/overlap.hpp"
#include "plan/job/cluster.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/units.hpp"
#include "traces/disturbance.hpp"

namespace weir {

struct Costs {
  Basis basis = Basis::builtin;
  std::string machine;         // "Intel Xeon ..., 2 cores" or a device name
  std::string backend;         // "cpu", "cuda"
  std::string origin;          // how and when it was obtained
  std::string file = "costs";  // as messages name them: the file that they were read from
  std::int64_t seq_length = 0;
  Dtype dtype = Dtype::fp32;
  std::vector<LayerCost> layers;
  Link link;                 // between ranks of this machine
  Seconds host_overhead{0};  // before every compute action
  Seconds step_overhead{0};  // between the last operation and the end of the step (barrier)
  // Nobody computes the gradient of the model's input (PyTorch): where backward is divided, the
  // first stage's I is nothing, and its W is the whole backward.
  bool first_backward_in_w = false;
  // Times of a device whose neighbours are idle, over those of a busy machine (quiet_share).
  Correction alone;
  Correction correction;   // learnt by calibrate
  SizeCorrection by_size;  // learnt by calibrate, beside `correction`; not the optimizer's
  double fixed = 1;        // likewise, of what a pass takes at any micro-batch size (fixed_part)
  std::optional<IntervalModel> interval;
  std::optional<CalibratedRange> range;  // of calibrated costs
  Jitter jitter;                         // of calibrated costs
  OverlapSlowdown overlap;
  std::optional<Disturbance> disturbance;  // while it was measured, or of the runs learnt from
  std::optional<CostAnchor>
      anchor;  // of anchored costs, whose file has no layers: they are built in
  // Of a cluster of several kinds of nodes: of every kind but the first, by Cluster::kind - 1. Not
  // in a file, for there the costs are of one machine.
  std::vector<Costs> other_kinds;

  [[nodiscard]] AnchorFactors factors() const { return anchor ? anchor->factors : AnchorFactors{}; }
  [[nodiscard]] Seconds anchored_step_overhead() const { return step_overhead * factors().step; }
};

// Of built-in costs, of all kinds of nodes: what was learnt on one of them is taken for the others.
void set_anchor(Costs& costs, const CostAnchor& anchor);

[[nodiscard]] Costs load_costs(const std::filesystem::path& file);
void save_costs(const Costs& costs, const std::filesystem::path& file);
[[nodiscard]] nlohmann::ordered_json to_json(const Costs& costs);  // weir.costs/1

}  // namespace weir

// From costs of layers to costs of one stage: looks each layer up, adds what it sends, and sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "costmodel/links/parallel.hpp"
#include "costmodel/table/costs.hpp"

namespace weir {

class StageSums {
 public:
  StageSums(const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster);

  // Warnings, and whether all lies within what was measured, go to `result`.
  [[nodiscard]] StageCost of(LayerRange range, CostTableResult& result);
  Bytes scratch{0};  // of the stage asked for last

 private:
  struct Sum {
    LayerTime time;        // what corrections apply to
    LayerTraffic traffic;  // what they do not
    Seconds r{0}, optimizer{0};
    std::int64_t parameters = 0;  // of one device
  };
  void add_layer(Sum& sum, int l, CostTableResult& result);
  [[nodiscard]] LayerTime layer_time(const Layer& layer, Seconds& optimizer,
                                     CostTableResult& result);
  [[nodiscard]] const LayerCost* find(const std::string& key) const;

  const ResolvedPlan& loaded_;
  const Costs& costs_;
  ParallelLinks links_;
  std::map<std::string, const LayerCost*> known_;
};

}  // namespace weir

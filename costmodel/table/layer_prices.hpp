// What each layer of a plan takes one device for one micro-batch: its time at the plan's size, in
// proportion or between measured sizes, and what it sends. Each is priced once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/row_work.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/table/layer_costs.hpp"

namespace weir {

struct LayerPrice {
  LayerTime time;            // what corrections apply to
  PerKind<Seconds> traffic;  // what they do not
  Seconds rebuild{0};  // its R within its B and I (recompute full); a part of neither's `time`
  // Of F, B and what is rebuilt, where lengths of sequences are known.
  struct {
    MicrobatchTime f, b, r;
  } varying;
};

// Layers that follow each other and cost the same, each.
struct PricedLayers {
  LayerRange layers;
  LayerPrice price;
};

// Of a price, what its sums do not show.
struct PriceParts {
  PerKind<Seconds> tensor, context, experts;  // of its traffic
  PerKind<Seconds> replicas;                  // of its time, what ZeRO sends beyond the kernels
  Seconds core{0};  // of its I and B, the attention core again (selective)
};

class LayerPrices {
 public:
  // The references must outlive it.
  LayerPrices(const Plan& plan, const LayerCosts& known, const Cluster& cluster);

  [[nodiscard]] const LayerPrice& of(int layer) const { return from(layer).front().price; }
  // All layers from this one on: the first run may begin before `layer`.
  [[nodiscard]] std::span<const PricedLayers> from(int layer) const;
  [[nodiscard]] PriceParts parts(int layer);
  // Of a row, where sequences are of several lengths.
  [[nodiscard]] const RowWork& row() const { return row_; }
  [[nodiscard]] const ParallelLinks& links() const { return links_; }
  // What was extrapolated, one line each; empty: every layer and micro-batch size lies within what
  // was measured.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  // The device's time of a layer's pass over the host's time about its collectives, the least of
  // all: above 1 the host runs ahead of the device. Infinite where the host takes none.
  [[nodiscard]] double device_over_host() const { return device_over_host_; }

 private:
  [[nodiscard]] LayerPrice price(int layer, PriceParts* parts = nullptr);
  // The layer's own time, with R and its share of the update.
  [[nodiscard]] LayerTime matched(int layer);
  // What of it the plan's graphs and lengths leave: fewer launches by the host, and passes of less
  // than a full row.
  void lessen(int layer, const std::optional<LayerKernels>& kernels, LayerTime& time,
              LayerPrice& price) const;
  void add_replicas(int layer, bool rebuilt, LayerTime& time, PriceParts* parts) const;
  [[nodiscard]] PerKind<Seconds> exchanged(const Layer& layer, const LayerTime& time,
                                           bool experts_rebuilt, PriceParts* parts) const;
  void wait_for_host(const Layer& layer, const std::optional<LayerKernels>& kernels, bool rebuilt,
                     LayerPrice& price);
  void wait_for_copies(int layer, bool rebuilt, LayerPrice& priced) const;
  [[nodiscard]] std::optional<LayerKernels> kernels_of(int layer) const;
  void warn(std::string warning);

  const Plan& plan_;
  const LayerCosts& known_;
  const Cluster& cluster_;
  ParallelLinks links_;
  RowWork row_;
  AnchorFactors anchor_;  // of the costs; 1 where they are not anchored
  double device_over_host_ = std::numeric_limits<double>::infinity();
  std::vector<PricedLayers> prices_;  // ascending
  std::vector<std::string> warnings_;
};

}  // namespace weir

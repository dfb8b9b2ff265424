// What a candidate of a search costs: its forecast, with the boundaries that make its step
// shortest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "sim/forecast/unnamed_software.hpp"
#include "sim/search/programs.hpp"
#include "sim/search/space/ranking.hpp"
#include "sim/software_parts.hpp"

namespace weir {

// The costs of one model's layers for each way to split them and each number of ranks over which
// its vocabulary is divided, matched once for all candidates that do so alike.
class SplitCosts {
 public:
  // The references must outlive it.
  SplitCosts(const Model& model, const Costs& costs, Stack stack = {})
      : model_(model), costs_(costs), stack_(std::move(stack)) {}
  // Throws InputError when a layer is not in the costs.
  const LayerCosts& add(const Plan& plan);
  // The same for a plan that divides the vocabulary, of which the model has other layers: why not,
  // where they are not in the costs, as in those that were measured without. Precondition: the
  // model's vocabulary can be divided.
  std::optional<std::string> add_divided(const Plan& plan);
  // What add_divided() said of such plans.
  [[nodiscard]] std::optional<std::string> lacks(const Plan& plan) const;
  // Precondition of both: the plan was added. Many threads may ask at once.
  [[nodiscard]] const LayerCosts& of(const Plan& plan) const {
    return by_layers_.at(layers_of(plan)).costs;
  }
  // What other software keeps of the layers, where nobody named it.
  [[nodiscard]] const SoftwareParts& software(const Plan& plan) const {
    return by_layers_.at(layers_of(plan)).software;
  }
  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] const Costs& costs() const { return costs_; }

 private:
  // How layers are split, and over how many ranks the vocabulary; 1: it is whole.
  using Layers = std::pair<Split, int>;
  [[nodiscard]] static Layers layers_of(const Plan& plan);
  // The model with the vocabulary divided so.
  const Model& divided(int ranks);

  const Model& model_;
  const Costs& costs_;
  Stack stack_;
  struct Known {
    LayerCosts costs;
    SoftwareParts software;
  };
  std::map<Layers, Known> by_layers_;
  std::map<Layers, std::string> lacking_;  // why there are no costs
  std::map<int, Model> divided_;           // by ranks; costs refer to them
};

struct CandidateLimits {
  std::optional<Bytes> memory{};
  bool even_if_it_cannot_fit = false;  // forecast what holds more than the limit from step to step
  std::optional<Seconds> step{};       // a longer one is of no use
  std::function<bool()> over{};        // from when it says so no partition is looked for
};

struct CandidateCost {
  Bytes held{0};                 // what ranks hold from step to step, on average
  std::optional<Ranked> ranked;  // none: with so much held it fits with no partition, or too slow
  // The partition that was not taken, of the even and the refined one, where both were forecast.
  std::optional<Ranked> other{};
  // Where its refined step is longer than the limit: how long it is at least, and both partitions.
  std::optional<Seconds> too_slow{};
  std::vector<int> even{}, refined{};
  int simulated = 0;  // partitions whose step was computed
};

// What all candidates of a search share.
struct CandidateSources {
  const SplitCosts& known;
  const Cluster& cluster;
  Programs& programs;
  ForecastDetail detail = ForecastDetail::ranking;  // of their forecasts
  SoftwareSteps* software = nullptr;                // by which steps are told: Ranked::range
};

// Precondition: the candidate is legal. Many threads may ask at once.
[[nodiscard]] CandidateCost cost_of(const Plan& candidate, const CandidateSources& sources,
                                    const CandidateLimits& limits);

// A candidate with its final boundaries and slots, forecast as it stands, and by the software of
// the sources.
[[nodiscard]] Ranked ranked_of(const Plan& plan, const CandidateSources& sources,
                               std::optional<Bytes> memory_limit);

}  // namespace weir

// Takes each rank's cheapest set whose peak fits, and lets the forecast confirm it.
// SPDX-License-Identifier: Apache-2.0
#include "sim/recompute/automatic.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/recompute/front.hpp"
#include "sim/recompute/rank_peak.hpp"

namespace weir {
namespace {

Recompute of_layers(std::vector<int> layers, const ModelPart& part) {
  std::ranges::sort(layers);
  Recompute recompute{.mode = RecomputeMode::full};
  for (const int layer : layers) {
    const bool follows = !recompute.layers.empty() && recompute.layers.back().last == layer;
    if (!follows) recompute.layers.push_back({layer, layer});
    recompute.layers.back().last = layer + 1;
  }
  if (layers.empty()) return {};
  // All blocks are the mode's own meaning: no list.
  int blocks = 0;
  for (const LayerRange& run : part.runs) blocks += part.layer(run.first).block ? run.size() : 0;
  if (std::cmp_equal(blocks, layers.size())) recompute.layers.clear();
  return recompute;
}

class Chooser {
 public:
  Chooser(const ResolvedPlan& resolved, const LayerCosts& known, const Cluster& cluster,
          Bytes limit)
      : resolved_(resolved),
        known_(known),
        cluster_(cluster),
        limit_(limit),
        limits_(rank_limits(resolved.plan, cluster, limit)) {
    set_choices();
  }

  [[nodiscard]] AutomaticRecompute choose() {
    // Nothing rebuilt is the shortest step, where it fits.
    const Forecast none = forecast_of({});
    if (none.fits() == Fits::yes) return result({}, none, Fits::yes);
    const std::vector<std::size_t> set = least_that_fits(none);
    const Recompute recompute = of_layers(layers_of(set), *known_.part());
    const Forecast best = forecast_of(recompute);
    AutomaticRecompute chosen = result(recompute, best, best.fits());
    // A copy of a stage stands on another rank, which has a bisection of its own.
    chosen.exact = resolved_.schedule.shape.replicas == 1 && !best.host;
    for (const auto& all : choices_) chosen.exact = chosen.exact && all.exact;
    for (std::size_t k = 0; k < set.size(); ++k)
      chosen.layers.push_back(static_cast<int>(choices_[k].choices[set[k]].layers.size()));
    // Selective rebuilds a part of every block, which no set of whole blocks says.
    const Recompute selective{.mode = RecomputeMode::selective};
    const Forecast core = forecast_of(selective);
    const bool better = core.step_time < best.step_time || best.fits() == Fits::no;
    if (core.fits() <= best.fits() && core.fits() != Fits::no && better)
      return result(selective, core, core.fits());
    return chosen;
  }

 private:
  [[nodiscard]] AutomaticRecompute result(const Recompute& recompute, const Forecast& forecast,
                                          Fits fits) const {
    return {recompute, forecast.step_time, fits, true, {}};
  }

  // What each layer's rebuilding takes, and what it saves of a micro-batch.
  void set_choices() {
    const ModelPart& part = *known_.part();
    const int layers = part.size();
    Plan none = resolved_.plan, full = resolved_.plan;
    none.recompute = {};
    full.recompute = {.mode = RecomputeMode::full, .layers = {{0, layers}}};
    const StageCosts costs(full, known_, cluster_);
    const ScheduleShape& shape = resolved_.schedule.shape;
    std::vector<std::vector<RebuildItem>> items(at(shape.ranks));
    for (std::int32_t s = 0; s < shape.stages; ++s) {
      const auto rank = at(shape.rank_of(Stage{s}).value);
      const LayerRange range = resolved_.stage(Stage{s}).layers;
      for (int l = range.first; l < range.last; ++l) {
        if (!part.layer(l).block) continue;
        // Each layer as a stage of its own, so that time and bytes are sums over layers.
        const StagePart single{.layers = {l, l + 1},
                               .input_bytes = l == 0 ? 0 : part.layer(l - 1).crossing_bytes,
                               .output_bytes = part.layer(l).crossing_bytes};
        const auto kept = [&](const Plan& plan) {
          const StageMemory stage(plan, part, single, cluster_.device.allocator, cluster_.stack);
          return total_bytes(stage.of(ActionKind::F, true).net);
        };
        const std::int64_t saved = kept(none) - kept(full);
        items[rank].push_back(
            {l, costs.of(single, shape.rank_of(Stage{s})).rebuild.count(), saved});
      }
    }
    for (const auto& of_rank : items) choices_.push_back(rebuild_choices(of_rank));
  }

  [[nodiscard]] std::vector<int> layers_of(const std::vector<std::size_t>& set) const {
    std::vector<int> layers;
    for (std::size_t k = 0; k < set.size(); ++k) {
      const auto& of_rank = choices_[k].choices[set[k]].layers;
      layers.insert(layers.end(), of_rank.begin(), of_rank.end());
    }
    return layers;
  }

  [[nodiscard]] Forecast forecast_of(const Recompute& recompute) const {
    Plan plan = resolved_.plan;
    plan.recompute = recompute;
    const ResolvedPlan now = derive(plan, resolved_.model, resolved_.schedule, resolved_.part);
    Forecast f = forecast(now, known_, cluster_, {.detail = ForecastDetail::order}).forecast;
    f.memory_limit = limit_;
    return f;
  }

  // What the forecast has beside the order's own peak, slots and reserves, is learnt from it: at
  // first the least of it, with nothing and with everything rebuilt; then of each rank that is over
  // the limit what it had. Slots depend on the other ranks' times: only what fits in one forecast
  // does.
  [[nodiscard]] std::vector<std::size_t> least_that_fits(const Forecast& none) const {
    std::vector<std::size_t> all;
    for (const RebuildChoices& choices : choices_) all.push_back(most_saved(choices));
    const Forecast most = forecast_of(of_layers(layers_of(all), *known_.part()));
    // What a rank can keep to with everything rebuilt: the upper bound, or the expectation.
    std::vector<bool> surely;
    for (std::size_t k = 0; k < all.size(); ++k)
      surely.push_back(most.memory[k].upper <= limits_[k]);
    const auto peak = [&](const Forecast& f, std::size_t k) {
      return (surely[k] ? f.memory[k].upper : f.memory[k].peak).count();
    };
    std::vector<std::int64_t> beside;
    for (std::size_t k = 0; k < all.size(); ++k)
      beside.push_back(std::min(peak(none, k) - peak_of(k, 0), peak(most, k) - peak_of(k, all[k])));
    constexpr int kAttempts = 16;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::vector<std::size_t> now = all;
      for (std::size_t k = 0; k < now.size(); ++k) now[k] = cheapest(k, beside[k], all[k]);
      const Forecast f = forecast_of(of_layers(layers_of(now), *known_.part()));
      bool fits = true;
      for (std::size_t k = 0; k < now.size(); ++k) {
        // With everything rebuilt there is nothing left to try.
        if (peak(f, k) <= limits_[k].count() || now[k] == all[k]) continue;
        fits = false;
        // One byte more at least: each attempt leaves less room than the one before.
        beside[k] = std::max(beside[k] + 1, peak(f, k) - peak_of(k, now[k]));
      }
      // A host holds the least with everything rebuilt: between the two nothing is looked for.
      const Fits host = f.host_fits();
      if (host == Fits::no || host > most.host_fits()) return all;
      if (fits) return now;
    }
    return all;
  }

  [[nodiscard]] static std::size_t most_saved(const RebuildChoices& set) {
    const auto most = std::ranges::max_element(set.choices, {}, &RebuildChoice::saved_bytes);
    return static_cast<std::size_t>(most - set.choices.begin());
  }

  [[nodiscard]] std::int64_t peak_of(std::size_t rank, std::size_t choice) const {
    const Recompute recompute = of_layers(choices_[rank].choices[choice].layers, *known_.part());
    return rank_peak(resolved_, known_, cluster_, Rank{static_cast<std::int32_t>(rank)}, recompute);
  }

  // The first choice, they are ascending in time, with which the rank keeps to the limit; `else_`
  // where there is none before it.
  [[nodiscard]] std::size_t cheapest(std::size_t rank, std::int64_t beside,
                                     std::size_t else_) const {
    const auto& choices = choices_[rank].choices;
    for (std::size_t c = 0; c < choices.size(); ++c) {
      // From here on none takes less time than what is there already.
      if (choices[c].time_ns >= choices[else_].time_ns) break;
      if (peak_of(rank, c) + beside <= limits_[rank].count()) return c;
    }
    return else_;
  }

  const ResolvedPlan& resolved_;
  const LayerCosts& known_;
  const Cluster& cluster_;
  Bytes limit_;
  std::vector<Bytes> limits_;            // by rank
  std::vector<RebuildChoices> choices_;  // by rank
};

}  // namespace

AutomaticRecompute automatic_recompute(const ResolvedPlan& resolved, const LayerCosts& known,
                                       const Cluster& cluster, Bytes limit) {
  return Chooser(resolved, known, cluster, limit).choose();
}

std::string describe(const AutomaticRecompute& chosen) {
  const std::string word = recompute_word(chosen.recompute);
  if (chosen.recompute.mode == RecomputeMode::none && chosen.fits == Fits::yes)
    return "recompute: none, all of it fits";
  std::string text = "recompute: " + word;
  if (!chosen.layers.empty())
    text += fmt::format(" ({} layers by rank)", fmt::join(chosen.layers, " "));
  if (chosen.fits == Fits::no) return text + ", and still it does not fit";
  const char* how = chosen.exact ? ", the least that fits" : ", fits; less might";
  return chosen.fits == Fits::maybe ? text + ", may fit" : text + how;
}

}  // namespace weir

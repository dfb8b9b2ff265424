// What a search knows of the candidates that it has refined: each is refined once, for whatever
// question, and every question after it is answered from there as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/search/examine.hpp"
#include "sim/search/space/ranking.hpp"

namespace weir {

// A candidate with boundaries, as forecast.
struct Cut {
  std::vector<int> boundaries;
  Seconds step{0};
  Bytes peak{0};            // expected, of the fullest rank
  Fits fits = Fits::maybe;  // the request's memory: yes or maybe
};
// As goes_before() has forecasts.
[[nodiscard]] bool goes_before(const Cut& a, const Cut& b);

// A candidate's partitions: the even one and, where it is another, the refined one.
struct Outcome {
  std::string reason{};  // of a schedule that cannot be
  int slots = 0;
  std::optional<Bytes> even_peak{};  // where it was not refined, being larger than was looked for
  // Not forecast, being longer than what was looked for: its refined step, and both partitions.
  std::optional<Seconds> too_slow{};
  std::vector<std::vector<int>> unforecast{};
  Bytes needed{0};                 // where none fits
  std::optional<HostHeld> host{};  // what is too much of one that else would
  std::vector<Cut> cuts{};         // those that fit, or may, what a ranking takes first
  int simulated = 0;
  double seconds = 0;      // that this process took for it
  bool cut_short = false;  // its partitions are as the end of the search left them
};

class Refiner {
 public:
  // The references must outlive it.
  Refiner(const SweepRequest& request, const Nodes& nodes, const SplitCosts& known,
          const Cluster& cluster)
      : request_(request),
        nodes_(nodes),
        known_(known),
        cluster_(cluster),
        examiner_(request, nodes, known, cluster) {}

  [[nodiscard]] Examiner& examiner() { return examiner_; }
  // Looks at nodes, each once; in the order given.
  [[nodiscard]] std::vector<Examined> examine(std::span<const std::uint32_t> nodes);

  [[nodiscard]] std::size_t examined() const { return examined_.size(); }

  // Whether a node is not refined again: it has partitions, or was refined to the end, or even
  // evenly cut it is larger than `memory`.
  [[nodiscard]] bool knows(std::uint32_t node, std::optional<Bytes> memory = {}) const;
  [[nodiscard]] const std::map<std::uint32_t, Outcome>& outcomes() const { return outcomes_; }
  [[nodiscard]] const Outcome& of(std::uint32_t node) const { return outcomes_.at(node); }
  // Refines those that are new, and forecasts those whose step is within the limit; with `memory`
  // none whose even partition is larger. Of several processes each refines its share, and hears of
  // the others'. `over`: asked by many threads; from when it says so partitions stay as they are.
  void refine(std::span<const std::uint32_t> nodes, std::optional<Seconds> limit,
              std::optional<Bytes> memory = {}, const std::function<bool()>& over = {});
  // Restores a cut of one that an earlier search refined.
  void restore(std::uint32_t node, int slots, std::vector<int> boundaries);
  // Of all cuts that may fit, but not surely, the one of the shortest step.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, Cut>> fastest_doubtful() const;

  // A candidate's cut, with all that a ranking says; and by such software.
  [[nodiscard]] Ranked ranked(std::uint32_t node, const Cut& cut,
                              SoftwareSteps* software = nullptr);

 private:
  [[nodiscard]] CandidateSources sources() {
    return {known_, cluster_, programs_, ForecastDetail::order};
  }
  [[nodiscard]] Ranked forecast_of(std::uint32_t node, int slots, std::vector<int> boundaries,
                                   const CandidateSources& sources);
  [[nodiscard]] Outcome refined(std::uint32_t node, CandidateLimits limits,
                                std::optional<Bytes> memory);
  void forecast_cuts(std::uint32_t node, Outcome& outcome,
                     std::vector<std::vector<int>> partitions);
  void share(std::span<const std::uint32_t> nodes, std::vector<Outcome>& outcomes);

  const SweepRequest& request_;
  const Nodes& nodes_;
  const SplitCosts& known_;
  const Cluster& cluster_;
  Examiner examiner_;
  Programs programs_;
  std::map<std::uint32_t, Examined> examined_;
  std::map<std::uint32_t, Outcome> outcomes_;
};

}  // namespace weir

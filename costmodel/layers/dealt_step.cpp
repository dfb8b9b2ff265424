// Draws steps and deals each.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/dealt_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "costmodel/layers/sequence_rounds.hpp"

namespace weir {
namespace {

constexpr std::uint64_t kDealtSeed = 1;
// Sequences drawn in all, and steps at least and at most: of many sequences few steps are alike
// enough.
constexpr std::int64_t kSequencesDrawn = 1 << 15;
constexpr std::int64_t kFewestSteps = 4, kMostSteps = 256;

// Tokens of a device of which times are asked, in shares of the most that one has.
constexpr std::array kTokenShares{1.0 / 64, 1.0 / 32, 1.0 / 16, 1.0 / 8,
                                  1.0 / 4,  1.0 / 2,  3.0 / 4,  1.0};

double mean_length(const std::vector<int>& quantiles) {
  if (quantiles.size() == 1) return quantiles.front();
  double sum = 0;
  for (std::size_t q = 0; q + 1 < quantiles.size(); ++q)
    sum += (static_cast<double>(quantiles[q]) + quantiles[q + 1]) / 2;
  return sum / static_cast<double>(quantiles.size() - 1);
}

class Dealer {
 public:
  Dealer(const SequencesOfAStep& step, const std::function<Seconds(const SequenceKind&)>& takes)
      : step_(step), takes_(takes) {
    std::int64_t before = 0;
    // No device has more than the longest sequence, whatever it may have.
    const int most = std::min(step.lengths.dynamic_cp, step.lengths.quantiles.back());
    for (const double share : kTokenShares) {
      const double wanted = share * most / static_cast<double>(step.multiple_of);
      const std::int64_t tokens = static_cast<std::int64_t>(std::ceil(wanted)) * step.multiple_of;
      if (tokens > before) of_device_.push_back(tokens);
      before = tokens;
    }
  }

  DealtStep mean() {
    const double length = mean_length(step_.lengths.quantiles);
    // Of very many a part stands for all: what differs is the end of the last rounds.
    constexpr std::int64_t kMostDealt = kSequencesDrawn / kFewestSteps;
    const auto count = std::clamp<std::int64_t>(
        std::llround(static_cast<double>(step_.tokens) / length), 1, kMostDealt);
    const std::int64_t steps = std::clamp(kSequencesDrawn / count, kFewestSteps, kMostSteps);
    for (std::int64_t s = 0; s < steps; ++s) deal(count);
    // What was drawn has other tokens than a step's, by chance.
    const double one = static_cast<double>(step_.tokens) / drawn_tokens_;
    for (auto& [kind, times] : dealt_.passes) times *= one / step_.devices;
    dealt_.busy *= one / step_.devices;
    dealt_.waits = rounds_ * one - dealt_.busy;
    return dealt_;
  }

 private:
  void deal(std::int64_t count) {
    std::vector<int> lengths;
    for (std::int64_t i = 0; i < count; ++i) {
      lengths.push_back(drawn());
      drawn_tokens_ += lengths.back();
    }
    for (const SequenceRound& round :
         sequence_rounds(std::move(lengths), step_.lengths.dynamic_cp, step_.devices)) {
      Seconds longest(0);
      for (const SequenceTeam& team : round) {
        Seconds sum(0);
        for (const int sequence : team.lengths) sum += pass(sequence, team.devices);
        longest = std::max(longest, sum);
        dealt_.busy += sum * team.devices;
      }
      rounds_ += longest;
    }
  }

  // The line through the quantiles, at a place that all numbers of 53 bits may be: the standard's
  // distributions differ between libraries.
  int drawn() {
    const std::vector<int>& all = step_.lengths.quantiles;
    const double place =
        static_cast<double>(random_() >> 11) * 0x1p-53 * static_cast<double>(all.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double low = all[below], high = all[std::min(below + 1, all.size() - 1)];
    return static_cast<int>(std::lround(low + (place - static_cast<double>(below)) * (high - low)));
  }

  Seconds pass(int length, int devices) {
    const double tokens = static_cast<double>(length) / devices;
    const auto above = std::ranges::lower_bound(of_device_, tokens);
    if (above == of_device_.begin() || above == of_device_.end())
      return part(above == of_device_.begin() ? *above : of_device_.back(), devices, 1);
    const auto low = static_cast<double>(*(above - 1)), high = static_cast<double>(*above);
    if (tokens == high) return part(*above, devices, 1);  // a kind that is asked for
    const double share = (tokens - low) / (high - low);
    return part(*(above - 1), devices, 1 - share) + part(*above, devices, share);
  }
  Seconds part(std::int64_t of_device, int devices, double share) {
    const SequenceKind kind{of_device * devices, devices};
    const auto [known, fresh] = times_.try_emplace(kind);
    if (fresh) known->second = takes_(kind);
    dealt_.passes[kind] += share * devices;
    return known->second * share;
  }

  const SequencesOfAStep& step_;
  const std::function<Seconds(const SequenceKind&)>& takes_;
  std::vector<std::int64_t> of_device_;  // ascending
  std::map<SequenceKind, Seconds> times_;
  std::mt19937_64 random_{kDealtSeed};
  DealtStep dealt_;  // of all drawn steps and all devices, until mean() divides
  Seconds rounds_{0};
  double drawn_tokens_ = 0;
};

}  // namespace

DealtStep dealt_step(const SequencesOfAStep& step,
                     const std::function<Seconds(const SequenceKind&)>& takes) {
  return Dealer(step, takes).mean();
}

}  // namespace weir

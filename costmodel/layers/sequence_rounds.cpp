// Fills one round after the other.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/sequence_rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "plan/words/lengths.hpp"

namespace weir {
namespace {

// Of the fullest device's work, by which the others may have less.
constexpr double kRoundSlack = 0.05;
constexpr double kFullRun = 1.1;  // of a run's part of all work

struct LoadedTeam {
  SequenceTeam team;
  double load = 0;  // of each of its devices
};

class Filler {
 public:
  Filler(int most, int devices) : most_(most), devices_(devices) {}

  // Takes what the round computes out of `left`.
  SequenceRound round(std::vector<int>& left) {
    teams_.clear();
    free_ = devices_;
    std::vector<std::deque<int>> runs = runs_of(left);
    fill(runs);
    left.clear();
    for (const std::deque<int>& run : runs) left.insert(left.end(), run.begin(), run.end());
    put_off(left);
    use_all();
    SequenceRound round;
    for (LoadedTeam& team : teams_) round.push_back(std::move(team.team));
    return round;
  }

 private:
  [[nodiscard]] int asked(int length) const { return devices_of_sequence(length, most_); }
  [[nodiscard]] double work(int length) const {
    return static_cast<double>(length) * length / asked(length);
  }

  // Runs of neighbours, each closed before it has more than its part of the work. Of what is left,
  // every run still to be closed is counted twice, as Megatron-LM counts it.
  [[nodiscard]] std::vector<std::deque<int>> runs_of(const std::vector<int>& lengths) const {
    std::set<int> sizes;
    double all = 0;
    for (const int length : lengths) {
      sizes.insert(asked(length));
      all += work(length);
    }
    const double part = all / static_cast<double>(sizes.size());
    auto open = static_cast<std::int64_t>(sizes.size());
    std::vector<std::deque<int>> runs(1);
    double load = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto left = static_cast<std::int64_t>(lengths.size() - i);
      const auto closed = static_cast<std::int64_t>(runs.size()) - 1;
      const double more = work(lengths[i]);
      const bool close = load + more > part * kFullRun || left <= open - closed;
      if (close && !runs.back().empty()) {
        runs.emplace_back();
        load = 0;
        --open;
      }
      runs.back().push_back(lengths[i]);
      load += more;
    }
    return runs;
  }

  void fill(std::vector<std::deque<int>>& runs) {
    std::optional<int> first;  // devices of the round's first sequence
    bool narrower = false;
    while (true) {
      const auto next = std::ranges::find_if(runs, [this](const std::deque<int>& run) {
        return !run.empty() && finds_place(asked(run.front()));
      });
      if (next == runs.end()) return;
      const int length = next->front(), size = asked(length);
      place(length, size);
      next->pop_front();
      if (!first) first = size;
      narrower = narrower || size < *first;
      const bool more = std::ranges::any_of(runs, [](const auto& run) { return !run.empty(); });
      if (narrower && more && fullest() - emptiest() <= kRoundSlack * fullest()) return;
    }
  }

  [[nodiscard]] bool finds_place(int size) const {
    return free_ >= size || std::ranges::any_of(teams_, [size](const LoadedTeam& team) {
             return team.team.devices == size;
           });
  }

  void place(int length, int size) {
    if (free_ >= size) {
      teams_.push_back({{size, {}}, 0});
      free_ -= size;
      add(teams_.back(), length);
      return;
    }
    LoadedTeam* least = nullptr;
    for (LoadedTeam& team : teams_) {
      if (team.team.devices != size) continue;
      if (least == nullptr || team.load < least->load) least = &team;
    }
    add(*least, length);
  }
  void add(LoadedTeam& team, int length) const {
    team.team.lengths.push_back(length);
    team.load += work(length);
  }

  [[nodiscard]] double fullest() const {
    return std::ranges::max_element(teams_, {}, &LoadedTeam::load)->load;
  }
  [[nodiscard]] double emptiest() const {
    return free_ > 0 ? 0 : std::ranges::min_element(teams_, {}, &LoadedTeam::load)->load;
  }

  void put_off(std::vector<int>& left) {
    while (emptiest() > 0) {
      const double slack = fullest() - emptiest();
      if (slack <= kRoundSlack * fullest()) return;
      LoadedTeam& team = *std::ranges::max_element(teams_, {}, &LoadedTeam::load);
      if (team.team.lengths.size() == 1) return;
      const int last = team.team.lengths.back();
      const double before = team.load;
      team.load -= work(last);
      if (fullest() - emptiest() >= slack) {
        team.load = before;
        return;
      }
      team.team.lengths.pop_back();
      left.push_back(last);
    }
  }

  // Sizes are powers of two, and so is the number of all devices: what is left over is a multiple
  // of the smallest team.
  void use_all() {
    while (free_ > 0) {
      LoadedTeam& team = *std::ranges::min_element(
          teams_, {}, [](const LoadedTeam& one) { return one.team.devices; });
      free_ -= team.team.devices;
      team.team.devices *= 2;
    }
  }

  int most_, devices_;
  int free_ = 0;
  std::vector<LoadedTeam> teams_;
};

}  // namespace

std::vector<SequenceRound> sequence_rounds(std::vector<int> lengths, int most, int devices) {
  std::ranges::sort(lengths, std::ranges::greater());
  std::vector<SequenceRound> rounds;
  Filler filler(most, devices);
  while (!lengths.empty()) rounds.push_back(filler.round(lengths));
  return rounds;
}

}  // namespace weir

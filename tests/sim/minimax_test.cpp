// The fastest busiest device and link, held to all partitions there are.
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/minimax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "sim/partition/balanced.hpp"
#include "sim/partition/chain_search.hpp"

namespace weir::minimax_test {
namespace {

// Every way to cut, by recursion.
template <class Visit>
void every_cut(int layers, int stages, std::vector<int>& cut, Visit visit) {
  if (static_cast<int>(cut.size()) + 1 == stages) return visit(cut);
  const int left = stages - static_cast<int>(cut.size()) - 2;
  for (int l = cut.empty() ? 1 : cut.back() + 1; l < layers - left; ++l) {
    cut.push_back(l);
    every_cut(layers, stages, cut, visit);
    cut.pop_back();
  }
}

// Written from the words of problem.hpp, not from its code: each device's stages, each link's
// boundaries.
std::optional<std::int64_t> busiest(const PartitionProblem& p, const std::vector<int>& cut) {
  std::vector<int> ends{0};
  ends.insert(ends.end(), cut.begin(), cut.end());
  ends.push_back(p.layers());
  std::int64_t most = 0;
  for (std::size_t device = 0; device < p.kinds.size(); ++device) {
    std::int64_t time = 0, bytes = 0;
    for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
      for (const int holder : p.devices[s]) {
        for (int l = ends[s]; holder == static_cast<int>(device) && l < ends[s + 1]; ++l) {
          time += p.layer_ns[at(p.kinds[device])][at(l)];
          if (p.memory)
            bytes += p.memory->held[at(l)] + p.memory->kept[at(l)] * p.memory->in_flight[s];
        }
      }
    }
    if (p.memory && bytes > p.memory->capacity[device]) return std::nullopt;
    most = std::max(most, time);
  }
  for (int link = 0; !p.cut_ns.empty() && link < 2 * p.stages; ++link) {
    std::int64_t time = 0;
    for (std::size_t b = 0; b < cut.size(); ++b)
      time += std::ranges::count(p.links[b], link) * p.cut_ns[b][at(cut[b])];
    most = std::max(most, time);
  }
  return most;
}

std::optional<std::int64_t> brute_force(const PartitionProblem& p) {
  std::optional<std::int64_t> best;
  std::vector<int> cut;
  every_cut(p.layers(), p.stages, cut, [&](const std::vector<int>& whole) {
    const auto time = busiest(p, whole);
    if (time && (!best || *time < *best)) best = time;
  });
  return best;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::int64_t upto(std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random_);
  }
  std::vector<std::int64_t> row(int count, std::int64_t most) {
    std::vector<std::int64_t> values(at(count));
    for (auto& value : values) value = upto(most);
    return values;
  }
  CutTimes cuts(int stages, int layers, std::int64_t most) {
    CutTimes cuts;
    for (int b = 1; b < stages; ++b) cuts.push_back(row(layers, most));
    return cuts;
  }
  // Tight enough to matter: from a half to three times an even share.
  PartitionMemory memory(int stages, int layers, int devices) {
    PartitionMemory m{row(layers, 9), row(layers, 9), {}, {}};
    for (int s = 0; s < stages; ++s) m.in_flight.push_back(stages - s);
    std::int64_t all = 0;
    for (int l = 0; l < layers; ++l) all += m.held[at(l)] + (stages + 1) * m.kept[at(l)] / 2;
    for (int d = 0; d < devices; ++d)
      m.capacity.push_back(all / devices / 2 + upto(5 * all / devices / 2));
    return m;
  }

 private:
  std::mt19937_64 random_;
};

// One problem of a shape, each further twist in half of the draws.
PartitionProblem any_problem(Draw& draw, const ScheduleShape& shape, int layers) {
  std::vector<std::vector<std::int64_t>> times;
  const int kinds = draw.upto(1) == 0 ? 1 : shape.ranks;
  for (int kind = 0; kind < kinds; ++kind) times.push_back(draw.row(layers, 20));
  const bool crossing = draw.upto(1) == 0;
  auto cuts = crossing ? draw.cuts(shape.stages, layers, 25) : CutTimes();
  PartitionProblem p = placed_problem(std::move(times), shape, std::move(cuts));
  if (draw.upto(1) == 0) p.memory = draw.memory(shape.stages, layers, shape.ranks);
  return p;
}

void expect_exact(const PartitionProblem& p) {
  const auto best = brute_force(p);
  const MinimaxPartition found = minimax_partition(p);
  if (!best) {
    EXPECT_EQ(found.proof, PartitionProof::infeasible);
    return;
  }
  ASSERT_EQ(found.proof, PartitionProof::optimal);
  EXPECT_EQ(found.slowest_ns, *best);
  EXPECT_EQ(found.lower_bound_ns, *best);
  EXPECT_EQ(busiest(p, found.boundaries), *best);
  EXPECT_EQ(slowest_ns(p, found.boundaries), *best);
}

TEST(Minimax, ChainsEqualBruteForce) {
  Draw draw(11);
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE("seed 11, trial " + std::to_string(trial));
    const int stages = 1 + static_cast<int>(draw.upto(4));
    const int layers = stages + static_cast<int>(draw.upto(12 - stages));
    expect_exact(any_problem(draw, looped_shape(stages, 1, 4), layers));
  }
}

TEST(Minimax, SharedDevicesEqualBruteForce) {
  Draw draw(12);
  for (int trial = 0; trial < 1500; ++trial) {
    SCOPED_TRACE("seed 12, trial " + std::to_string(trial));
    const auto two = 1 + static_cast<int>(draw.upto(1));
    ScheduleShape shape;
    switch (draw.upto(2)) {
      case 0:
        shape = v_shape(two, 4);
        break;
      case 1:
        shape = looped_shape(two, 2, 4);
        break;
      default:
        shape = bidirectional_shape(2 + 2 * static_cast<int>(draw.upto(1)), 4);
    }
    const int layers = shape.stages + static_cast<int>(draw.upto(12 - shape.stages));
    expect_exact(any_problem(draw, shape, layers));
  }
}

// Layers 4 1 1 4 on two ranks in a V of four stages: rank 0 has the first and the last, so 4 + 4
// against 1 + 1; every partition of four layers into four stages is this one.
TEST(Minimax, AVAddsUpBothOfARanksStages) {
  const PartitionProblem p = placed_problem({{4, 1, 1, 4}}, v_shape(2, 4));
  const MinimaxPartition found = minimax_partition(p);
  EXPECT_EQ(found.proof, PartitionProof::optimal);
  EXPECT_EQ(found.slowest_ns, 8);
  EXPECT_EQ(found.boundaries, (std::vector<int>{1, 2, 3}));
}

// Without a budget the answer is a descent's, and says how far it may be from the best.
TEST(Minimax, SaysItsGapWhereTheBudgetEnds) {
  Draw draw(13);
  bool bounded = false;
  for (int trial = 0; trial < 5; ++trial) {
    const PartitionProblem p = placed_problem({draw.row(40, 1000)}, looped_shape(4, 3, 4));
    const MinimaxPartition quick = minimax_partition(p, 100), longer = minimax_partition(p, 5000);
    EXPECT_LE(quick.lower_bound_ns, longer.slowest_ns);
    EXPECT_LE(longer.lower_bound_ns, quick.slowest_ns);
    EXPECT_EQ(quick.gap() == 0, quick.proof == PartitionProof::optimal);
    bounded = bounded || quick.proof == PartitionProof::bounded;
  }
  EXPECT_TRUE(bounded);
}

// The programme over (stage, layer), O(stages layers^2): best(s, l) = min over i of
// max(best(s-1, i), x(s, i), t(i, l)).
std::int64_t by_programme(const PartitionProblem& p) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const auto width = at(p.layers()) + 1;
  std::vector<std::int64_t> before(width, kNever), now(width);
  before[0] = 0;
  for (int s = 0; s < p.stages; ++s) {
    std::ranges::fill(now, kNever);
    for (std::size_t i = 0; i < width; ++i) {
      if (before[i] == kNever || i + 1 == width) continue;
      const std::int64_t cut = s == 0 || p.cut_ns.empty() ? 0 : p.cut_ns[at(s - 1)][i];
      std::int64_t time = 0;
      for (std::size_t l = i; l + 1 < width; ++l) {
        time += p.layer_ns[at(p.kinds[at(s)])][l];
        now[l + 1] = std::min(now[l + 1], std::max({before[i], cut, time}));
      }
    }
    std::swap(before, now);
  }
  return before.back();
}

// Chains too long for brute force, among them those with a few layers much longer than the rest.
TEST(Minimax, LongChainsEqualTheProgramme) {
  Draw draw(14);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE("seed 14, trial " + std::to_string(trial));
    const int layers = 100 + static_cast<int>(draw.upto(200));
    const int stages = 2 + static_cast<int>(draw.upto(30));
    std::vector<std::vector<std::int64_t>> times(trial % 3 == 0 ? at(stages) : 1);
    for (auto& row : times) row = draw.row(layers, 1'000'000);
    times.front()[at(draw.upto(layers - 1))] *= 40;
    auto cuts = trial % 2 == 0 ? draw.cuts(stages, layers, 20'000'000) : CutTimes();
    const auto p = placed_problem(std::move(times), looped_shape(stages, 1, 4), std::move(cuts));
    EXPECT_EQ(minimax_partition(p).slowest_ns, by_programme(p));
  }
}

// Times of a model's size, where squares of nanoseconds leave 64 bits: the even partition still is
// the programme's.
TEST(Minimax, EvenPartitionIsNoWorseThanAnyOtherOfTheLeastLimit) {
  Draw draw(15);
  for (int trial = 0; trial < 200; ++trial) {
    const auto times = draw.row(9, 1'000'000'000'000);
    const PartitionProblem p = chain_problem(times, 3);
    const auto squares = [&](const std::vector<int>& cut) {
      long double sum = 0;
      for (std::size_t s = 0; s <= cut.size(); ++s) {
        long double stage = 0;
        const int last = s == cut.size() ? 9 : cut[s];
        for (int l = s == 0 ? 0 : cut[s - 1]; l < last; ++l)
          stage += static_cast<long double>(times[at(l)]);
        sum += stage * stage;
      }
      return sum;
    };
    const auto even = best_boundaries(times, 3);
    const auto limit = minimax_partition(p).slowest_ns;
    ASSERT_EQ(slowest_ns(p, even), limit);
    std::vector<int> cut;
    every_cut(9, 3, cut, [&](const std::vector<int>& other) {
      if (slowest_ns(p, other) != limit) return;
      EXPECT_LE(squares(even), squares(other) * (1 + 1e-15L));
    });
  }
}

}  // namespace
}  // namespace weir::minimax_test

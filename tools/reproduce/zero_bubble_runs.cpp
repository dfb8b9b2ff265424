// Zero Bubble, Table 4: measured throughput from the times of Table 9, and memory from the shapes.
// Nothing is fitted to Table 4; what the profiled times leave out is stated here.
//
//   transfers   Megatron's 1F1B and 1F1B-I wait for each batch of a send and a receive; the ZB
//               schedules do not wait for their sends
//   devices     same-model A100s differ by 8 % from the slowest to the fastest (Sinha et al., "Not
//               All GPUs Are Created Equal", SC 2022, the average of its clusters): factors drawn
//               evenly around the profiled mean
//   optimizer   Adam in mixed precision moves 38 B a parameter (reads gradient, weight and two
//               moments in fp32, writes them and the fp16 weight, reads gradients once for the norm
//               and clears them) at the A100 80GB SXM datasheet's 2039 GB/s
//   memory      18 B a parameter (fp16 weight, fp32 gradient, weight and two moments); activations
//               of Korthikanti et al. (arXiv:2205.05198), s b h (34 + 5 a s / h) a layer, of which
//               32 s b h stay from I to W (Qi et al., section 2.3); while a layer's backward runs,
//               fp16 gradients of its attention probabilities and scores, 4 a s^2 b; GB are 2^30,
//               as PyTorch counts them
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tools/reproduce/reproduction.hpp"
#include "tools/reproduce/zero_bubble.hpp"

namespace weir {
namespace {

constexpr double kDeviceSpread = 0.08, kOptimizerBytes = 38, kMemoryRate = 2.039e12,
                 kRunsVocabulary = 50257;
constexpr int kDraws = 16;

struct Method {
  const char* paper;     // as printed
  const char* schedule;  // ours; nullptr: the authors' search found it
  const char* column;
  bool waits;  // for its transfers
};
constexpr Method kMethods[] = {{"1F1B", "1f1b", "1f1b", true},
                               {"1F1B-I", "interleaved-1f1b", "1f1b_i", true},
                               {"ZB-1p", "zb-h1", "zb_1p", false},
                               {"ZB-2p", nullptr, "zb_2p", false}};

double layer_parameters(const ZeroBubbleRow& row) {
  const double h = row.hidden;
  return 12 * h * h + 13 * h;
}

// Of a rank: its layers, and the embedding or the head.
double rank_parameters(const ZeroBubbleRow& row, int rank) {
  const bool end = rank == 0 || rank == row.p - 1;
  return (row.layers_per_stage() - (end ? 1 : 0)) * layer_parameters(row) +
         (end ? kRunsVocabulary * row.hidden : 0);
}

Seconds optimizer_time(const ZeroBubbleRow& row) {
  double most = 0;
  for (int rank = 0; rank < row.p; ++rank) most = std::max(most, rank_parameters(row, rank));
  return Seconds(most * kOptimizerBytes / kMemoryRate);
}

// Evenly in [1 - spread / 2, 1 + spread / 2), the same on every machine for one seed.
std::vector<double> device_factors(int ranks, std::mt19937_64& random) {
  std::vector<double> factors;
  for (int r = 0; r < ranks; ++r) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    factors.push_back(1 + kDeviceSpread * (uniform - 0.5));
  }
  return factors;
}

Seconds step_time(const ZeroBubbleRow& row, const Method& method) {
  // One seed for every row and method: they see the same devices.
  std::mt19937_64 random(1);
  if (method.schedule == nullptr) {  // Table 5's bubble, at the pace of the slowest device
    // Without a schedule the slowest device paces the whole.
    double slowest = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::vector<double> factors = device_factors(row.p, random);
      slowest += *std::max_element(factors.begin(), factors.end()) / kDraws;
    }
    // The bubble is a share of the whole, so the work is what is left of it.
    const Seconds work = (row.times.f + row.times.i + row.times.w) * row.m * slowest;
    return work / (1 - row.cells.number("bubble_zb_2p")) + optimizer_time(row);
  }
  // Draws are of devices, so the schedule is simulated with each.
  const Schedule schedule = zero_bubble_schedule(row, method.schedule);
  const CostTable even = zero_bubble_costs(row, schedule);
  Seconds sum{0};
  for (int draw = 0; draw < kDraws; ++draw) {
    CostTable costs = even;
    const std::vector<double> factors = device_factors(row.p, random);
    for (std::size_t s = 0; s < costs.stages.size(); ++s) {
      const Rank rank = schedule.shape.rank_of(Stage{s});
      costs.stages[s] = slowed(costs.stages[s], factors[rank.position()]);
    }
    // What waits for its transfers is as slow as they are.
    if (method.waits) occupy_senders(costs);
    sum += to_seconds(time_pipeline(schedule, costs).span);
  }
  return sum / kDraws + optimizer_time(row);
}

// Most bytes of activations that a rank holds, over the order of its actions.
double activation_peak(const ZeroBubbleRow& row, const Schedule& schedule, int rank) {
  const double sbh = 1.0 * row.sequence * row.b * row.hidden;
  const double whole = sbh * (34 + 5.0 * row.heads * row.sequence / row.hidden), until_w = sbh * 32;
  const int chunks = schedule.shape.stages / schedule.shape.ranks;
  double now = 0, most = 0;
  for (const Action& action : schedule.order[Rank{rank}]) {
    // The first and last stages have a layer less, for the embedding and the head.
    const bool end = schedule.shape.is_first(action.stage) || schedule.shape.is_last(action.stage);
    const int layers = row.layers_per_stage() / chunks - (end ? 1 : 0);
    // F keeps all, I leaves what W needs, W and B leave nothing.
    const double change = action.kind == ActionKind::F   ? whole
                          : action.kind == ActionKind::I ? until_w - whole
                          : action.kind == ActionKind::W ? -until_w
                                                         : -whole;
    now += layers * change;
    most = std::max(most, now);
  }
  return most;
}

double memory_gib(const ZeroBubbleRow& row, const Method& method) {
  double most = 0;
  for (int rank = 0; rank < row.p; ++rank) {
    double activations = 0;
    if (method.schedule != nullptr) {
      activations = activation_peak(row, zero_bubble_schedule(row, method.schedule), rank);
    } else {  // ZB-2p's limit: twice the p micro-batches of 1F1B's first stage, on every stage
      const Schedule one = zero_bubble_schedule(row, "1f1b");
      const double in_flight = std::min(row.m, row.p - rank);
      activations = activation_peak(row, one, rank) / in_flight * std::min(row.m, 2 * row.p);
    }
    const double workspace = 4.0 * row.heads * row.sequence * row.sequence * row.b;
    most = std::max(most, activations + workspace + 18 * rank_parameters(row, rank));
  }
  return most / (1 << 30);
}

}  // namespace

CaseResult reproduce_zero_bubble_throughput(const Publications& published) {
  CaseResult result;
  for (const ZeroBubbleRow& row : zero_bubble_rows(published)) {
    for (const Method& method : kMethods) {
      const double samples = 1.0 * row.b * row.m / row.p / step_time(row, method).count();
      result.add(Role::predicted,
                 {row.name, fmt::format("samples/s a GPU, {}", method.paper),
                  row.cells.printed(fmt::format("samples_{}", method.column)), samples});
    }
  }
  result.notes.push_back(
      fmt::format("Beyond Table 9's times: 1F1B and 1F1B-I wait for their transfers, devices "
                  "{:.0f} % apart ({} seeded "
                  "draws), Adam's "
                  "{:.0f} B a parameter. Nothing is fitted.",
                  kDeviceSpread * 100, kDraws, kOptimizerBytes));
  result.notes.emplace_back("ZB-2p takes its bubble from Table 5: its schedule is not published.");
  return result;
}

CaseResult reproduce_zero_bubble_memory(const Publications& published) {
  CaseResult result;
  for (const ZeroBubbleRow& row : zero_bubble_rows(published)) {
    for (const Method& method : kMethods) {
      result.add(Role::predicted, {row.name, fmt::format("memory GB, {}", method.paper),
                                   row.cells.printed(fmt::format("memory_{}", method.column)),
                                   memory_gib(row, method)});
    }
  }
  result.notes.emplace_back(
      "18 B a parameter; activations by Korthikanti et al.; ZB-2p at its limit of 2p "
      "micro-batches.");
  return result;
}

}  // namespace weir

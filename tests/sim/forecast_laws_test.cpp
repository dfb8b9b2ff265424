// Laws that no forecast may break, held on random plans, models, clusters and stacks. Conservation:
// what a rank does and waits for is the step, its memory is the sum of its parts, fractions are
// fractions, no step is below its bound. Monotony: a faster device or link, or more memory, makes
// no step longer and no plan fit less; a slower one, a straggler, twice the micro-batches or twice
// their size, none shorter.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/table/builtin.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/strict_json.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/priced_program.hpp"
#include "sim/partition/shipped.hpp"

namespace weir::forecast_laws_test {
namespace {

using Numbers = std::vector<std::int64_t>;

// The seed is each forecast's own, so that one that breaks a law is made again by its number.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
  }
  std::int64_t of(std::initializer_list<std::int64_t> all) { return of(Numbers(all)); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

 private:
  std::mt19937 random_;
};

struct Machines {
  std::vector<Cluster> clusters;
  std::vector<Stack> stacks;
};

const Machines& machines() {
  static const Machines all = [] {
    const auto examples = std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples";
    Machines m;
    for (const char* name : {"dgx-h100", "dgx-a100", "p100-pcie", "dgx1-v100", "mi300x",
                             "gb200-nvl72", "a100-80gb-roce"})
      m.clusters.push_back(load_cluster(examples / "clusters" / fmt::format("{}.json", name)));
    for (const char* name : {"typical", "megatron-core", "torchtitan", "nanotron", "eager-3d"})
      m.stacks.push_back(load_stack(examples / "stacks" / fmt::format("{}.json", name)));
    return m;
  }();
  return all;
}

Model model_of(Draw& draw) {
  const std::int64_t layers = draw.of({1, 2, 3, 4, 6, 8, 12, 16});
  const std::int64_t hidden = draw.of({64, 128, 512, 1024, 4096});
  const std::int64_t heads = draw.of({1, 2, 4, 8, 16});
  const std::int64_t tokens = draw.of({16, 128, 512, 2048});
  const std::int64_t vocabulary = draw.of({128, 1024, 32000, 50264});
  const std::string sizes = fmt::format(
      R"("vocab_size": {}, "hidden_size": {}, "num_attention_heads": {}, "num_hidden_layers": {},
         "max_position_embeddings": {}, "intermediate_size": {}, "rms_norm_eps": 1e-5,
         "num_key_value_heads": {})",
      vocabulary, hidden, heads, layers, tokens, hidden * draw.of({1, 2, 4}), heads);
  std::string config;
  switch (draw.of({0, 1, 2})) {
    case 0:
      config = fmt::format(
          R"({{"model_type": "gpt2", "n_embd": {}, "n_head": {}, "n_layer": {}, "vocab_size": {},
               "n_positions": {}}})",
          hidden, heads, layers, vocabulary, tokens);
      break;
    case 1:
      config = fmt::format(R"({{"model_type": "llama", {}}})", sizes);
      break;
    default:
      config = fmt::format(
          R"({{"model_type": "mixtral", "num_local_experts": {}, "num_experts_per_tok": {}, {}}})",
          draw.of({2, 4, 8}), draw.of({1, 2}), sizes);
  }
  return hugging_face_model(parse_json(config, "config.json"), "config.json");
}

Plan plan_of(Draw& draw, const Model& model) {
  Plan plan;
  plan.seq_length = model.max_positions;
  plan.dtype = draw.of(std::vector<Dtype>{Dtype::fp32, Dtype::bf16, Dtype::fp16});
  plan.attention = draw.chance(0.5) ? AttentionKind::fused : AttentionKind::unfused;
  plan.pp = static_cast<int>(draw.of({1, 2, 3, 4, 8}));
  plan.microbatches = static_cast<int>(draw.of({1, 2, 3, 4, 8, 16, 32}));
  plan.micro_batch_size = static_cast<int>(draw.of({1, 2, 4}));
  const Generator& generator =
      generators()[static_cast<std::size_t>(
                       draw.of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})) %
                   generators().size()];
  plan.schedule = generator.name;
  plan.vpp = generator.default_chunks;
  plan.slices = generator.default_slices;
  if (draw.chance(0.4)) {
    plan.tp = static_cast<int>(draw.of({2, 4}));
    plan.sequence_parallel = draw.chance(0.5);
  }
  if (draw.chance(0.4)) {
    plan.dp = static_cast<int>(draw.of({2, 4, 16}));
    plan.zero = static_cast<int>(draw.of({0, 1, 2, 3}));
    plan.overlap_grad_reduce = draw.chance(0.4);
  }
  if (draw.chance(0.2)) plan.cp = static_cast<int>(draw.of({2, 4}));
  if (draw.chance(0.3)) plan.ep = static_cast<int>(draw.of({2, 4}));
  plan.recompute.mode = draw.of(
      std::vector<RecomputeMode>{RecomputeMode::none, RecomputeMode::none, RecomputeMode::selective,
                                 RecomputeMode::full, RecomputeMode::stage});
  return plan;
}

// The plan with everything that follows from it; none: it cannot be.
std::optional<ResolvedPlan> resolved(Plan plan, Model model) {
  const auto layers = static_cast<int>(model.layers.size());
  if (plan.stages() > layers || cannot_divide(model, plan) || cannot_share_experts(plan))
    return std::nullopt;
  auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  auto* schedule = std::get_if<Schedule>(&made);
  if (schedule == nullptr) return std::nullopt;
  plan.boundaries = uniform_boundaries(layers, plan.stages());
  plan.slots = fewest_slots(*schedule, 2);
  set_treatment(model, plan);
  return derive(std::move(plan), std::move(model), std::move(*schedule));
}

Forecast forecast_of(const ResolvedPlan& plan, const Cluster& cluster) {
  const Costs costs = builtin_costs(plan.model, plan.plan.seq_length, plan.plan.dtype, cluster,
                                    {plan.plan.split()});
  Forecast f = forecast(plan, costs, cluster, {.detail = ForecastDetail::ranking}).forecast;
  f.memory_limit = cluster.largest_memory();
  return f;
}

void conserves(const Forecast& f) {
  const StepMetrics& m = f.metrics;
  for (std::size_t r = 0; r < m.ranks.size(); ++r) {
    const RankMetrics& rank = m.ranks[r];
    EXPECT_EQ(rank.busy + rank.idle.total(), m.step_time) << "rank " << r;
    EXPECT_GE(rank.busy, rank.useful) << "rank " << r;
    for (const IdleCause& cause : kIdleCauses)
      EXPECT_GE((rank.idle.*cause.time).count(), 0) << cause.name << " of rank " << r;
    Bytes held{0};
    for (const MemoryKind kind : kMemoryKinds) {
      EXPECT_GE(f.memory[r].at_peak[kind].count(), 0) << "rank " << r;
      held += f.memory[r].at_peak[kind];
    }
    EXPECT_EQ(held, f.memory[r].peak) << "rank " << r;
    EXPECT_LE(f.memory[r].peak, f.memory[r].upper) << "rank " << r;
  }
  for (const double fraction : {m.bubble_fraction, m.bubble_fraction_span, f.mfu.value_or(0)}) {
    EXPECT_GE(fraction, 0);
    EXPECT_LE(fraction, 1);
  }
  EXPECT_TRUE(std::isfinite(f.step_time.count()));
  EXPECT_GT(f.step_time.count(), 0);
  // A nanosecond is the unit that both are rounded to.
  EXPECT_LE(f.lower_bound.count(), f.step_time.count() + 1e-9);
}

struct Variant {
  std::string what;
  Cluster cluster;
  int sign;  // of what may become of the step: -1 no longer, 1 no shorter, 0 the same
};

std::vector<Variant> variants(const Cluster& cluster, Rank straggler) {
  std::vector<Variant> all;
  const auto add = [&](std::string what, int sign, auto change) {
    Variant v{std::move(what), cluster, sign};
    change(v.cluster);
    all.push_back(std::move(v));
  };
  add("twice the memory bandwidth", -1,
      [](Cluster& c) { c.device.memory_bandwidth = c.device.memory_bandwidth * 2; });
  add("twice the products", -1, [](Cluster& c) {
    for (FlopsPerSecond* peak : {&c.device.peak_fp32, &c.device.peak_tf32, &c.device.peak_bf16,
                                 &c.device.peak_fp16, &c.device.peak_fp8})
      *peak = *peak * 2;
  });
  add("twice the bandwidth within nodes", -1,
      [](Cluster& c) { c.intra.bandwidth = c.intra.bandwidth * 2; });
  add("twice the bandwidth between nodes", -1,
      [](Cluster& c) { c.inter.bandwidth = c.inter.bandwidth * 2; });
  add("three times the latency within nodes", 1,
      [](Cluster& c) { c.intra.latency = c.intra.latency * 3; });
  add("three times the latency between nodes", 1,
      [](Cluster& c) { c.inter.latency = c.inter.latency * 3; });
  add("twice the memory", 0, [](Cluster& c) { c.device.memory = c.device.memory * 2; });
  add("a straggler", 1, [&](Cluster& c) { c.stragglers[straggler.value] = 1.5; });
  return all;
}

// Where every operation has what it needs to itself, each start is a maximum of sums of durations:
// none is later for a shorter one, and what is faster rounds to no more ns. Messages that share a
// node's cards slow each other: one that begins earlier may hold back one that is waited for, as
// jobs on shared machines do (Graham, 1966). And what replicas send beside a backward is hidden for
// as long as that lasts. Both together move a step by less than a hundredth.
double tolerance(const ResolvedPlan& plan, const Cluster& cluster) {
  Costs costs;
  costs.basis = Basis::builtin;
  const bool alone = contention_of(plan.program, plan.plan, costs, cluster).none();
  return alone && plan.plan.replicas() == 1 ? 1e-9 : 0.1;
}

void is_monotonous(const ResolvedPlan& plan, const Model& model, const Cluster& cluster,
                   const Forecast& f) {
  const auto straggler = Rank{plan.plan.pp / 2};
  const double slack = tolerance(plan, cluster);
  for (const Variant& v : variants(cluster, straggler)) {
    const Forecast other = forecast_of(plan, v.cluster);
    const double step = f.step_time.count(), now = other.step_time.count();
    if (v.sign < 0) {
      EXPECT_LE(now, step * (1 + slack)) << v.what;
    } else if (v.sign > 0) {
      EXPECT_GE(now, step * (1 - slack)) << v.what;
    } else {
      EXPECT_EQ(now, step) << v.what;
      EXPECT_LE(other.fits(), f.fits()) << v.what;
      EXPECT_GE(other.fits_probability(), f.fits_probability() - 1e-12) << v.what;
    }
  }
  for (auto part : {&Plan::microbatches, &Plan::micro_batch_size}) {
    Plan larger = plan.plan;
    larger.*part *= 2;
    const auto twice = resolved(std::move(larger), model);
    if (!twice) continue;
    const Forecast more = forecast_of(*twice, cluster);
    EXPECT_GE(more.step_time.count(), f.step_time.count() * (1 - slack))
        << (part == &Plan::microbatches ? "twice M" : "twice b");
  }
}

// Forecasts of plans that can be, of this many seeds from the first on.
int held_to_the_laws(std::uint32_t first, int wanted) {
  int forecasts = 0;
  for (std::uint32_t seed = first; forecasts < wanted; ++seed) {
    Draw draw(seed);
    const Model model = model_of(draw);
    const auto plan = resolved(plan_of(draw, model), model);
    Cluster cluster = draw.of(machines().clusters);
    const Stack& stack = draw.of(machines().stacks);
    if (!plan || peak_rate(cluster.device, plan->plan.dtype).count() <= 0) continue;
    set_stack(cluster, stack);
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     fmt::format("seed {}: {} on {} by {}", seed,
                                                 to_json(plan->plan), cluster.name, stack.name));
    const Forecast f = forecast_of(*plan, cluster);
    ++forecasts;
    conserves(f);
    is_monotonous(*plan, model, cluster, f);
    if (testing::Test::HasFailure()) return forecasts;
  }
  return forecasts;
}

TEST(ForecastLaws, HoldForRandomPlans) { EXPECT_EQ(held_to_the_laws(1, 200), 200); }

// A stage of the last norm alone, some of whose actions round to no time (v-half, ZeRO 3, stages
// rebuilt): what was rebuilt was once below nothing.
TEST(ForecastLaws, HoldWhereActionsTakeNoTime) { EXPECT_EQ(held_to_the_laws(1'002'735, 1), 1); }

TEST(LongForecastLaws, HoldForRandomPlans) {
  EXPECT_EQ(held_to_the_laws(1'000'000, 20'000), 20'000);
}

}  // namespace
}  // namespace weir::forecast_laws_test

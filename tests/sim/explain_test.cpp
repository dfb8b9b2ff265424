// Explanations of 200 plans that are made from seeds: parts that sum to the step to the nanosecond,
// a critical path that is the longest way through the program, and changed plans that are forecast
// as they are by themselves. And a measured step's causes, which bring the forecast to it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/cost_breakdown.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/explain/changes.hpp"
#include "sim/explain/critical_path.hpp"
#include "sim/explain/gap.hpp"
#include "sim/explain/waterfall.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/forecast/priced_program.hpp"
#include "sim/search/partitions/balance.hpp"

namespace weir::explain_test {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 512, "n_positions": 64,
  "n_embd": 64, "n_layer": 6, "n_head": 4})";

constexpr const char* kMixtral = R"({"model_type": "mixtral", "vocab_size": 512,
  "max_position_embeddings": 64, "hidden_size": 64, "num_hidden_layers": 6,
  "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
  "num_local_experts": 4})";

class Explain : public testing::Test {
 protected:
  Explain()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-explain-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    write_file_atomically(folder_ / "gpt2.json", kGpt2);
    write_file_atomically(folder_ / "mixtral.json", kMixtral);
  }
  ~Explain() override { std::filesystem::remove_all(folder_); }

  struct Case {
    Plan plan;
    Cluster cluster;
  };

  static int any(std::mt19937& random, int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  }

  // Blocks on GPUs of two to a node, divided in every way.
  Case divided(std::mt19937& random) const {
    Case made;
    made.cluster = load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json");
    made.cluster.devices_per_node = any(random, 1, 3);
    made.cluster.nodes = 16;
    made.cluster.stack.time.blocking_messages = any(random, 0, 3) == 0;
    if (any(random, 0, 3) == 0)
      made.cluster.node_bandwidth = BytesPerSecond(any(random, 1, 9) * 1e8);
    Plan& plan = made.plan;
    plan.model_path = "gpt2.json";
    plan.model_sha256 = sha256_hex(kGpt2);
    plan.seq_length = 32;
    plan.dtype = Dtype::bf16;
    plan.attention = any(random, 0, 1) == 0 ? AttentionKind::fused : AttentionKind::unfused;
    plan.tp = any(random, 1, 2);
    plan.cp = any(random, 0, 3) == 0 ? 2 : 1;
    plan.dp = any(random, 1, 2);
    plan.sequence_parallel = plan.tp > 1 && any(random, 0, 1) == 0;
    if (plan.replicas() > 1) plan.zero = any(random, 0, 3);
    return made;
  }

  // Layers of random times on CPU cores with slow links.
  Case timed(std::mt19937& random) const {
    Case made;
    std::string text =
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n";
    for (int l = 0; l < 8; ++l)
      text += fmt::format("l{},table,{},{},{},{},{},{},1\n", l, any(random, 0, 9000),
                          any(random, 1, 6), any(random, 1, 6), any(random, 0, 5),
                          any(random, 64, 40000), any(random, 64, 4000));
    write_file_atomically(folder_ / "layers.csv", text);
    made.cluster.device.name = "cpu-core";
    made.cluster.devices_per_node = 32;
    made.cluster.intra = {Seconds(any(random, 1, 900) * 1e-6),
                          BytesPerSecond(any(random, 1, 50) * 1e6)};
    made.plan.model_path = "layers.csv";
    made.plan.model_sha256 = sha256_hex(text);
    made.plan.seq_length = 1;
    return made;
  }

  // K, M, b, schedule and re-materialisation as they come.
  Case made(unsigned seed) const {
    std::mt19937 random(seed);
    Case its = seed % 3 == 0 ? timed(random) : divided(random);
    Plan& plan = its.plan;
    // A quarter of those divided have experts, which their replicas share.
    if (seed % 3 == 1 && seed % 2 == 0) {
      plan.model_path = "mixtral.json";
      plan.model_sha256 = sha256_hex(kMixtral);
      plan.ep = plan.dp;
    }
    plan.micro_batch_size = any(random, 1, 2);
    std::optional<Schedule> schedule;
    while (!schedule) {
      const auto all = generators();
      const Generator& generator =
          all[static_cast<std::size_t>(any(random, 0, static_cast<int>(all.size()) - 1))];
      plan.schedule = generator.name;
      plan.pp = any(random, 1, 3);
      plan.vpp = generator.default_chunks;
      plan.microbatches = any(random, 1, 6);
      auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
      if (std::holds_alternative<std::string>(made)) continue;
      if (std::get<Schedule>(made).shape.stages == plan.stages())
        schedule = std::get<Schedule>(made);
    }
    plan.slots = fewest_slots(*schedule, any(random, 1, 2));
    plan.recompute.mode =
        std::vector{RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full,
                    RecomputeMode::stage}[static_cast<std::size_t>(any(random, 0, 3))];
    const bool may_spare =
        plan.recompute.mode == RecomputeMode::full || plan.recompute.mode == RecomputeMode::stage;
    plan.recompute.except_last = may_spare && any(random, 0, 1) == 0;
    const int layers = 8;
    for (int s = 1; s < plan.stages(); ++s) plan.boundaries.push_back(s * layers / plan.stages());
    return its;
  }

  // The plan as `weir simulate` has it: from its file, with costs of its own.
  struct Alone {
    ResolvedPlan resolved;
    Costs costs;
  };
  Alone alone(const Plan& plan, const Cluster& cluster) const {
    ResolvedPlan resolved = resolve(plan, folder_);
    Costs costs =
        builtin_costs(resolved.model, plan.seq_length, plan.dtype, cluster, {plan.split()});
    if (plan.seq_length == 1) costs.host_overhead = Seconds(70e-6);
    return {std::move(resolved), std::move(costs)};
  }

  std::filesystem::path folder_;
};

constexpr unsigned kPlans = 200;

TEST_F(Explain, PartsSumToTheStep) {
  for (unsigned seed = 0; seed < kPlans; ++seed) {
    const auto [plan, cluster] = made(seed);
    const auto [resolved, costs] = alone(plan, cluster);
    const LayerCosts known(resolved, costs, cluster.stack);
    const CostBreakdown breakdown = cost_breakdown(resolved, known, cluster);
    for (std::size_t s = 0; s < breakdown.stages.size(); ++s) {
      for (const ActionKind kind : kComputeKinds) {
        Nanoseconds sum{0};
        for (const auto part : PerCause<Nanoseconds>::members())
          sum += breakdown.stages[s][kind].*part;
        EXPECT_EQ(sum, breakdown.table.stages[s][kind]) << seed << " " << to_string(kind);
      }
    }
    const ForecastResult result = forecast(resolved, known, cluster);
    const Waterfall fall = waterfall(resolved, breakdown, result);
    Nanoseconds sum{0};
    for (const StepShare& part : fall.parts) sum += part.time;
    EXPECT_EQ(sum, result.forecast.metrics.step_time) << seed;
    EXPECT_EQ(fall.step, sum);
    // Held to the forecast's own accounts, of which the parts are means over ranks.
    const auto& ranks = result.forecast.metrics.ranks;
    double rebuilt = 0, fill = 0;
    for (const RankMetrics& rank : ranks) {
      rebuilt += static_cast<double>(rank.rematerialise.count());
      fill += static_cast<double>(rank.idle.fill.count());
    }
    const auto mean = [&](double all) { return all / static_cast<double>(ranks.size()); };
    EXPECT_NEAR(static_cast<double>(fall.of("fill").count()), mean(fill), 1) << seed;
    // Selective's is within I and B, of which a trace does not know.
    if (plan.recompute.mode != RecomputeMode::selective && fall.of("contention").count() == 0) {
      EXPECT_NEAR(static_cast<double>(fall.of("rematerialised").count()), mean(rebuilt), 1) << seed;
    }
    const double peak = peak_rate(cluster.device, plan.dtype).count();
    if (peak == 0) continue;
    const double useful = training_flops(resolved.model, plan.seq_length).count() *
                          static_cast<double>(plan.global_batch_size()) / plan.devices() / peak;
    EXPECT_NEAR(to_seconds(fall.of("useful_at_peak")).count(), useful, 2e-9) << seed;
  }
}

// What is sent is seen where there is somebody to send to, and nowhere else.
TEST_F(Explain, TrafficHasItsCause) {
  int tensor = 0, replicas = 0, messages = 0, experts = 0;
  for (unsigned seed = 0; seed < kPlans; ++seed) {
    const auto [plan, cluster] = made(seed);
    const auto [resolved, costs] = alone(plan, cluster);
    const LayerCosts known(resolved, costs, cluster.stack);
    const Waterfall fall = waterfall(resolved, cost_breakdown(resolved, known, cluster),
                                     forecast(resolved, known, cluster));
    EXPECT_EQ(fall.of("tensor").count() > 0, plan.tp > 1) << seed;
    EXPECT_EQ(fall.of("context").count() > 0, plan.cp > 1) << seed;
    EXPECT_EQ(fall.of("experts").count() > 0, plan.ep > 1) << seed;
    if (plan.stages() == 1) {
      EXPECT_EQ(fall.of("messages").count(), 0) << seed;
    }
    if (plan.recompute.mode == RecomputeMode::none) {
      EXPECT_EQ(fall.of("rematerialised").count(), 0) << seed;
    }
    tensor += fall.of("tensor").count() > 0 ? 1 : 0;
    replicas += fall.of("replicas").count() > 0 ? 1 : 0;
    messages += fall.of("messages").count() > 0 ? 1 : 0;
    experts += fall.of("experts").count() > 0 ? 1 : 0;
  }
  EXPECT_GT(std::min({tensor, replicas, messages}), 20);
  EXPECT_GT(experts, 10);
}

TEST_F(Explain, TheCriticalPathIsTheLongest) {
  for (unsigned seed = 0; seed < kPlans; ++seed) {
    const auto [plan, cluster] = made(seed);
    const auto [resolved, costs] = alone(plan, cluster);
    const LayerCosts known(resolved, costs, cluster.stack);
    const ForecastResult result = forecast(resolved, known, cluster);
    const CriticalPath path = critical_path(resolved.program, result.trace);
    Nanoseconds sum{0};
    int actions = 0;
    for (const CriticalPart& part : path.parts) {
      sum += part.time;
      if (part.kind != "host" && part.kind != "end") actions += part.actions;
    }
    EXPECT_EQ(sum, result.forecast.metrics.step_time) << seed;
    EXPECT_LE(actions, std::ssize(path.operations)) << seed;
    // Each waits for the one before it.
    for (std::size_t i = 1; i < path.operations.size(); ++i) {
      const OperationId before = path.operations[i - 1], id = path.operations[i];
      bool waits = resolved.program.previous(id) == before;
      for (const Dependency& dependency : resolved.program.predecessors(id))
        waits = waits || dependency.before == before;
      EXPECT_TRUE(waits) << seed;
    }
    // Where nothing slows anything down, as long as the longest way to any operation's end.
    if (!contention_of(resolved.program, plan, costs, cluster).none()) continue;
    OperationCosts lengths =
        expand(resolved.program, cost_breakdown(resolved, known, cluster).table);
    PerOperation<std::int64_t> length(resolved.program.size()), end(resolved.program.size());
    for (const OperationId id : resolved.program.ids())
      length[id] = lengths.duration_ns[id] + (lengths.gap_ns.empty() ? 0 : lengths.gap_ns[id]);
    std::int64_t makespan = 0;
    for (const OperationId id : resolved.program.order()) {
      if (const OperationId before = resolved.program.previous(id); before != kNoOperation)
        end[id] = end[before];
      for (const Dependency& dependency : resolved.program.predecessors(id))
        end[id] = std::max(end[id], end[dependency.before]);
      end[id] += length[id];
      makespan = std::max(makespan, end[id]);
    }
    std::int64_t chain = 0;
    for (const OperationId id : path.operations) chain += length[id];
    EXPECT_EQ(chain, makespan) << seed;
  }
}

TEST_F(Explain, AChangedPlanIsForecastAsItIsByItself) {
  int forecasts = 0;
  std::set<std::string> choices;
  for (unsigned seed = 0; seed < kPlans; ++seed) {
    const auto [plan, cluster] = made(seed);
    const ResolvedPlan resolved = resolve(plan, folder_);
    Split other = plan.split();
    other.sequence_parallel = plan.tp > 1 && !other.sequence_parallel;
    Costs costs =
        builtin_costs(resolved.model, plan.seq_length, plan.dtype, cluster, {plan.split(), other});
    costs.host_overhead = alone(plan, cluster).costs.host_overhead;
    const Forecast base = forecast(resolved, costs, cluster).forecast;
    const auto rows = what_if(resolved, changes(resolved, costs, cluster), costs, cluster, base);
    double before = std::numeric_limits<double>::infinity();
    for (const WhatIf& row : rows) {
      ASSERT_EQ(row.forecast.has_value(), row.change.refused.empty());
      if (!row.forecast) continue;
      EXPECT_LE(row.gain, before) << seed;
      before = row.gain;
      const Cluster& on = row.change.cluster ? *row.change.cluster : cluster;
      const auto [its, its_costs] = alone(row.change.plan, on);
      const Forecast f = forecast(its, its_costs, on).forecast;
      EXPECT_EQ(f.step_time, row.forecast->step_time) << seed << " " << row.change.choice;
      EXPECT_EQ(f.peak_memory(), row.forecast->peak_memory()) << seed << " " << row.change.choice;
      EXPECT_TRUE(row.change.cluster || row.change.plan != plan);
      choices.insert(row.change.choice);
      ++forecasts;
    }
  }
  EXPECT_GT(forecasts, 2000);
  EXPECT_THAT(choices,
              testing::IsSupersetOf({"micro-batches", "v", "schedule", "re-materialisation",
                                     "sequence parallelism", "ZeRO", "overlap of the reduction",
                                     "CUDA graphs", "boundaries", "receive slots", "link"}));
}

// What there is no time for is left out: the first three of the changes are what they are.
TEST_F(Explain, ChangesEndWithTheirTime) {
  const auto [plan, cluster] = made(1);
  const auto [resolved, costs] = alone(plan, cluster);
  const Forecast base = forecast(resolved, costs, cluster).forecast;
  const std::vector<Change> all = changes(resolved, costs, cluster);
  ASSERT_GT(all.size(), 3U);
  int asked = 0;
  const auto rows = what_if(resolved, all, costs, cluster, base, [&asked] { return ++asked > 3; });
  ASSERT_EQ(rows.size(), 3U);
  for (const WhatIf& row : rows) {
    const auto of = std::ranges::find(all, row.change.to, &Change::to);
    EXPECT_LT(of - all.begin(), 3);
  }
}

// With the factor that a cause is given, the step is the measured one; and costs that are off by a
// factor are found out.
TEST_F(Explain, ACauseOffByItsFactorIsTheMeasuredStep) {
  int found = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto [plan, cluster] = made(seed);
    auto [resolved, costs] = alone(plan, cluster);
    const LayerCosts known(resolved, costs, cluster.stack);
    const CostBreakdown breakdown = cost_breakdown(resolved, known, cluster);
    const Forecast f = forecast(resolved, known, cluster).forecast;
    // The update takes three times as long.
    CostTable slower = breakdown.table;
    for (std::size_t s = 0; s < slower.stages.size(); ++s)
      slower.stages[s].optimizer += 2 * breakdown.stages[s].optimizer.work;
    const auto outcome = simulate(resolved.program, expand(resolved.program, slower),
                                  contention_of(resolved.program, plan, costs, cluster));
    const Nanoseconds measured =
        std::get<Timing>(outcome).makespan + to_nanoseconds(costs.anchored_step_overhead());
    const Gap gap = explain_gap(resolved, breakdown, costs, cluster, f, to_seconds(measured));
    EXPECT_NEAR(gap.difference.count(), to_seconds(measured).count() - f.step_time.count(), 1e-12);
    const auto update = std::ranges::find(gap.causes, "update", &SuspectedCause::name);
    ASSERT_NE(update, gap.causes.end());
    double before = 0;
    for (const SuspectedCause& cause : gap.causes) {
      EXPECT_FALSE(cause.measurement.empty());
      EXPECT_EQ(cause.factor.has_value(), cause.reading_if.has_value());
      const double far = cause.factor ? std::abs(std::log(*cause.factor)) : before;
      EXPECT_GE(far, before) << seed << " " << cause.name;
      before = far;
    }
    if (measured == to_nanoseconds(f.step_time)) continue;  // nothing to update
    ASSERT_TRUE(update->factor) << seed;
    // To a millionth of the step, of which the update may be a small part.
    const double part = 2 * (measured - to_nanoseconds(f.step_time)) / to_nanoseconds(f.step_time);
    EXPECT_GT(*update->factor, 1) << seed << " " << part;
    ++found;
  }
  EXPECT_GT(found, 10);
}

}  // namespace
}  // namespace weir::explain_test

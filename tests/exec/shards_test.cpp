// ZeRO-2 and ZeRO-3: replicas that keep their slices of gradients, and of weights too, train as
// those that keep all of them, send what the forecast prices, and hold what it says.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "costmodel/memory/memory.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "exec/weights/safetensors.hpp"
#include "tests/exec/mesh_training.hpp"
#include "tests/exec/peaks.hpp"
#include "tests/exec/spans.hpp"
#include "tests/exec/tiny_cnn.hpp"

namespace weir::shards_test {
namespace {

// Six micro-batches, dealt to `dp` replicas.
Plan sharded(const TinyModel& model, int zero, int dp, std::vector<int> boundaries,
             const char* schedule = "1f1b") {
  Plan plan = model.plan(std::move(boundaries), 6 / dp, schedule);
  plan.dp = dp;
  plan.zero = zero;
  plan.slots = 0;
  return plan;
}

void expect_losses_near(const RunResult& result, const RunResult& expected, double tolerance) {
  ASSERT_EQ(result.steps.size(), expected.steps.size());
  for (std::size_t i = 0; i < expected.steps.size(); ++i)
    EXPECT_NEAR(result.steps[i].loss, expected.steps[i].loss, tolerance) << "step " << i;
}

// Each replica has one micro-batch, so a step's gradient is the sum of D terms whoever adds them:
// the bits of ZeRO-1 and of replicas that share nothing.
TEST(Shards, WithOneMicroBatchEachTheBitsAreThoseOfWholeGradients) {
  for (const bool tied : {true, false}) {
    const TinyModel model(tied, 0.1, 37);  // 37 rows: no slice ends with a row
    for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {2}, {1, 3}}) {
      for (const char* schedule : {"gpipe", "zb-h1"}) {
        const std::string expected =
            trained(model, sharded(model, 1, 6, boundaries, schedule), steps(2)).parameters_sha256;
        for (const int zero : {0, 2, 3}) {
          EXPECT_EQ(trained(model, sharded(model, zero, 6, boundaries, schedule), steps(2))
                        .parameters_sha256,
                    expected)
              << zero << " " << schedule << " K" << boundaries.size() + 1;
        }
      }
    }
  }
}

// With M micro-batches each, ZeRO-1 adds a replica's up first and the replicas' sums then, as does
// ZeRO-0; here every micro-batch's gradients are summed over the replicas, and those sums added up.
// Where gradients are cut, and where weights are, changes nothing of it: one order of sums for an M
// and a D, so equal bits over K, partitions, schedules, re-materialisation and both stages of ZeRO.
TEST(Shards, BitsAreEqualForEveryPipelineAndBothStages) {
  const TinyModel model(true, 0.1, 37, 5);
  Plan first = sharded(model, 2, 2, {}, "gpipe");
  const RunResult expected = trained(model, first, steps(2));
  const struct {
    std::vector<int> boundaries;
    const char* schedule;
    int vpp = 1;
    const char* recompute = "none";
  } cases[] = {{{}, "gpipe", 1, "full:4"}, {{}, "1f1b"},
               {{2}, "1f1b", 1, "full"},   {{3}, "zb-h1", 1, "full:2"},
               {{1, 3}, "zb-h1"},          {{2, 5}, "gpipe", 1, "stage"},
               {{1, 3, 4}, "zb-v", 2},     {{2, 4, 5}, "looped-bfs", 2, "selective"}};
  for (const int zero : {2, 3}) {
    for (const auto& c : cases) {
      Plan plan = sharded(model, zero, 2, c.boundaries, c.schedule);
      plan.pp = static_cast<int>(c.boundaries.size() + 1) / c.vpp;
      plan.vpp = c.vpp;
      plan.recompute = mode(c.recompute);
      plan.overlap_grad_reduce = plan.pp == 2;
      EXPECT_EQ(trained(model, plan, steps(2)).parameters_sha256, expected.parameters_sha256)
          << zero << " K" << plan.pp << " " << plan.schedule << " " << c.recompute;
    }
  }
  expect_losses_near(expected, trained(model, sharded(model, 1, 2, {}), steps(2)), 1e-6);
  expect_losses_near(expected, trained(model, sharded(model, 0, 1, {}), steps(2)), 1e-5);
}

// Both directions of a bidirectional schedule hold each stage: their slices are summed at the
// step's end.
TEST(Shards, GoWithStagesThatHaveCopies) {
  const TinyModel model(true, 0.1, 37);
  const auto plan = [&](int zero) {
    Plan p = sharded(model, zero, 3, {2}, "chimera");
    p.optimizer.learning_rate = 1e-2;
    return p;
  };
  const RunResult one = trained(model, plan(1), steps(3));
  const RunResult two = trained(model, plan(2), steps(3));
  EXPECT_EQ(two.parameters_sha256, trained(model, plan(3), steps(3)).parameters_sha256);
  expect_losses_near(two, one, 1e-6);
}

TEST(Shards, EveryOptimizerUpdatesSlicesAlike) {
  using enum OptimizerKind;
  const std::vector<Optimizer> rules{{.kind = sgd, .learning_rate = 1e-2, .momentum = 0.9},
                                     {.kind = rmsprop, .learning_rate = 1e-2},
                                     {.kind = sgd, .learning_rate = 1, .clip_norm = 0.05}};
  const TinyModel model(true, 0.1, 37);
  for (const Optimizer& rule : rules) {
    const auto result = [&](int zero, std::vector<int> boundaries) {
      Plan plan = sharded(model, zero, 3, std::move(boundaries));
      plan.optimizer = rule;
      return trained(model, plan, steps(3));
    };
    const RunResult one = result(1, {2}), two = result(2, {2});
    expect_losses_near(two, one, 1e-6);
    EXPECT_EQ(result(3, {1, 3}).parameters_sha256, two.parameters_sha256);
    if (rule.clip_norm == 0) continue;
    for (std::size_t i = 0; i < 3; ++i) {
      const double norm = one.steps[i].gradient_norm.value();
      EXPECT_GT(norm, rule.clip_norm);
      EXPECT_NEAR(two.steps[i].gradient_norm.value(), norm, 1e-5 * norm) << i;
    }
  }
}

// Two devices divide each layer, two replicas each device's part of it; norms that each device has
// a part of the gradient of are summed in slices.
TEST(Shards, GoWithDividedLayers) {
  for (const TinyConfig& config :
       {tiny_llama("qwen3", "", 3, 37), tiny_llama("llama", R"(,"tie_word_embeddings":true)")}) {
    const TinyModel model(config);
    for (const bool sequence_parallel : {false, true}) {
      const auto result = [&](int zero, std::vector<int> boundaries, const char* schedule) {
        Plan plan = model.plan(std::move(boundaries), 2, schedule);
        plan.tp = plan.dp = 2;
        plan.zero = zero;
        plan.sequence_parallel = sequence_parallel;
        plan.optimizer.clip_norm = 0.5;
        return trained(model, plan, steps(3));
      };
      const RunResult one = result(1, {2}, "1f1b"), two = result(2, {2}, "1f1b");
      expect_losses_near(two, one, 1e-5);
      EXPECT_EQ(result(3, {2}, "1f1b").parameters_sha256, two.parameters_sha256);
      EXPECT_EQ(result(3, {}, "gpipe").parameters_sha256, two.parameters_sha256);
    }
  }
}

// Threads that `weir run` takes without a launcher, with two slots an edge.
TEST(Shards, ThreadsOfOneProcessGiveTheBitsOfProcesses) {
  const TinyModel model(true, 0.1, 37);
  Plan plan = sharded(model, 3, 2, {2});
  plan.tp = 2;
  plan.slots = 2;
  EXPECT_EQ(run_in_one_process(model.load(plan), steps(3), cpu_only()).parameters_sha256,
            trained(model, plan, steps(3)).parameters_sha256);
}

// Running means are whole at every replica, and are moved by the mini-batch's once a step.
TEST(Shards, ConvolutionalNetworksTrainToo) {
  const TinyModel model(tiny_resnet());
  const auto result = [&](int zero, int dp, std::vector<int> boundaries, const char* schedule) {
    return trained(model, sharded(model, zero, dp, std::move(boundaries), schedule), steps(3));
  };
  const std::string alone = result(1, 6, {2}, "1f1b").parameters_sha256;
  for (const int zero : {2, 3}) {
    EXPECT_EQ(result(zero, 6, {2}, "1f1b").parameters_sha256, alone);
    expect_losses_near(result(zero, 2, {3}, "zb-h1"), result(1, 2, {3}, "zb-h1"), 1e-5);
  }
  EXPECT_EQ(result(3, 2, {}, "gpipe").parameters_sha256,
            result(2, 2, {1, 3}, "zb-h1").parameters_sha256);
}

// Of two replicas with three micro-batches each, through a pipeline: weights that do not move give
// every stage of ZeRO the same values, and the means of six numbers of order 1 differ in their
// sums' order alone.
TEST(Shards, RunningStatisticsAreThoseOfWholeGradients) {
  const TinyModel model(tiny_resnet());
  const auto statistics = [&](int zero) {
    RunOptions options = steps(2);
    options.save = own_folder() / "saved";
    static_cast<void>(trained(model, unmoved(sharded(model, zero, 2, {2})), options));
    return running_statistics(*options.save);
  };
  const auto whole = statistics(1);
  ASSERT_GT(whole.size(), 2U);
  for (const int zero : {2, 3}) {
    const auto found = statistics(zero);
    ASSERT_EQ(found.size(), whole.size());
    for (const auto& [name, values] : whole) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(found.at(name)[i], values[i], 1e-6) << zero << " " << name << " " << i;
        EXPECT_NE(values[i], name.ends_with("mean") ? 0.0F : 1.0F) << name;  // it has moved
      }
    }
  }
}

// docs/theory.md 6.3, each way over D replicas and of n bytes (D - 1) n in all: ZeRO-0 sums a
// step's gradients (two ways); ZeRO-2 a micro-batch's (one each) and gathers weights once; ZeRO-3
// gathers them in each F and B instead. What else a step sends is the same.
TEST(Shards, SendWhatIsForecast) {
  constexpr int kReplicas = 3, kMicrobatches = 2;
  const TinyModel model(false, 0.1, 37, 2);
  const ResolvedPlan loaded = model.load(sharded(model, 0, kReplicas, {2}));
  std::int64_t numbers = 0;
  for (int l = 0; l < loaded.part->size(); ++l) numbers += loaded.part->layer(l).parameters;
  const auto bytes_of_a_step = [&](int zero, const char* recompute) {
    Plan plan = sharded(model, zero, kReplicas, {2});
    plan.recompute = mode(recompute);
    const auto sent = [&](int count) {
      return run_as_threads(
                 model.load(plan), steps(count), [](int) { return cpu_only(); }, copied_links())
          .bytes;
    };
    return sent(2) - sent(1);
  };
  const std::int64_t way = (kReplicas - 1) * numbers * 4, zero = bytes_of_a_step(0, "none");
  EXPECT_EQ(bytes_of_a_step(1, "none"), zero);
  EXPECT_EQ(bytes_of_a_step(2, "none"), zero + way * (kMicrobatches + 1 - 2));
  EXPECT_EQ(bytes_of_a_step(3, "none"), zero + way * (3 * kMicrobatches - 2));
  // A layer that is rebuilt by itself has been gathered for its backward; R gathers as F does.
  EXPECT_EQ(bytes_of_a_step(3, "full"), zero + way * (3 * kMicrobatches - 2));
  EXPECT_EQ(bytes_of_a_step(3, "stage"), zero + way * (4 * kMicrobatches - 2));
}

// Of one rank, all that lives at once does: the arena's peak to the byte.
void expect_peaks_to_the_byte(const TinyModel& model) {
  for (const int zero : {2, 3}) {
    for (const int dp : {2, 3, 6}) {
      for (const char* schedule : {"gpipe", "zb-h1"}) {
        for (const char* recompute : {"none", "full", "full:2", "stage", "selective"}) {
          Plan plan = sharded(model, zero, dp, {}, schedule);
          plan.recompute = mode(recompute);
          const ResolvedPlan loaded = model.load(plan);
          const RunResult result = trained(model, loaded.plan, steps(2));
          const std::vector<Span> spans = spans_in_order(loaded.program);
          const auto peaks =
              memory_peaks(loaded, loaded.program, std::span<const Span>(spans), result.scratch);
          EXPECT_EQ(peaks.front().peak.count(), result.peak_memory.front().count())
              << zero << " D" << dp << " " << schedule << " " << recompute;
        }
      }
    }
  }
}

TEST(Shards, TheForecastOfTheirMemoryIsTheArenas) {
  expect_peaks_to_the_byte(TinyModel(true, 0.1, 500, 4));  // most of it is weights
}
TEST(Shards, TheForecastOfTheirMemoryIsTheArenasBesideActivations) {
  expect_peaks_to_the_byte(TinyModel(false, 0.1, 32, 4, 24));
}

// And of two, whose messages come when they come: to 1 %, and one of them.
TEST(Shards, TheForecastHoldsInPipelines) {
  const TinyModel model(true, 0.1, 500, 4);
  for (const int zero : {2, 3}) {
    for (const char* schedule : {"1f1b", "zb-h1"}) {
      for (const int boundary : {1, 3}) {
        Plan plan = sharded(model, zero, 2, {boundary}, schedule);
        plan.slots = 2;
        const ResolvedPlan loaded = model.load(plan);
        const RunResult result = run_in_one_process(loaded, traced_steps(2), cpu_only());
        const auto peaks = peaks_of_all_steps(loaded, result);
        for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
          const auto measured = static_cast<double>(result.peak_memory[rank].count());
          const auto message =
              static_cast<double>(plan.micro_batch_size * plan.seq_length * 16 * 4);
          EXPECT_NEAR(static_cast<double>(peaks[rank].peak.count()), measured,
                      0.01 * measured + message)
              << zero << " " << schedule << " " << boundary << " rank " << rank;
        }
      }
    }
  }
}

// The gradient that a dump shows, and the logits, are those of whole weights.
TEST(Shards, DumpTheWholeGradient) {
  const TinyModel model;
  const auto dumped = [&](int zero) {
    RunOptions options = steps(1);
    options.dump = own_folder() / "dump.safetensors";
    static_cast<void>(trained(model, sharded(model, zero, 6, {3}), options));
    const SafetensorsFile file(*options.dump);
    std::vector<float> numbers = to_floats(file.tensors().at("transformer.wte.weight"), "wte");
    const std::vector<float> logits = to_floats(file.tensors().at("logits"), "logits");
    numbers.insert(numbers.end(), logits.begin(), logits.end());
    return numbers;
  };
  const std::vector<float> expected = dumped(1);
  EXPECT_EQ(dumped(2), expected);
  EXPECT_EQ(dumped(3), expected);
}

// A checkpoint is whole: it goes on with the bits of a run that was never stopped where the plan
// sums in the same order, and to 5 digits with other replicas and other stages of ZeRO.
TEST(Shards, ACheckpointGoesOnDividedOtherwise) {
  const TinyModel model;
  const Plan three = sharded(model, 3, 3, {2});
  const RunResult whole = trained(model, three, steps(4));
  RunOptions options = steps(2);
  options.output = own_folder() / "out";
  options.checkpoint_every = 2;
  static_cast<void>(trained(model, three, options));
  RunOptions on = steps(2);
  on.resume = own_folder() / "out";
  for (const Plan& plan :
       {three, sharded(model, 2, 3, {1, 4}, "gpipe"), sharded(model, 3, 3, {}, "1f1b")})
    EXPECT_EQ(trained(model, plan, on).parameters_sha256, whole.parameters_sha256);
  for (const Plan& plan : {sharded(model, 1, 3, {2}), sharded(model, 0, 1, {3}),
                           sharded(model, 3, 2, {3}), sharded(model, 2, 6, {2})}) {
    const RunResult rest = trained(model, plan, on);
    EXPECT_EQ(rest.first_step, 2);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(rest.steps[i].loss, whole.steps[2 + i].loss, 1e-5) << plan.dp << " " << i;
  }
}

// An evaluation gathers the weights of the same forwards, and trains nothing.
TEST(Shards, EvaluateAsWholeWeightsDo) {
  const TinyModel model(true, 0.1, 256);
  write_file_atomically(own_folder() / "text", std::string(400, 'w') + std::string(400, 'e'));
  const auto evaluated = [&](int zero, std::vector<int> boundaries) {
    RunOptions options = steps(2);
    options.evaluate = own_folder() / "text";
    return trained(model, sharded(model, zero, 6, std::move(boundaries)), options);
  };
  const RunResult one = evaluated(1, {2}), three = evaluated(3, {1, 3});
  EXPECT_EQ(three.evaluation->loss, one.evaluation->loss);
  EXPECT_EQ(three.parameters_sha256, one.parameters_sha256);
}

}  // namespace
}  // namespace weir::shards_test

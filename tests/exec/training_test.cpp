// Training as GPipe promises it: the same parameters to the last bit whatever the pipeline, and a
// loss that falls.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <random>

#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/engine/event_engine.hpp"
#include "tests/exec/peaks.hpp"
#include "tests/exec/replay.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::training_test {
namespace {

std::string hash_after(const TinyModel& model, const Plan& plan, int steps = 3) {
  RunOptions options;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(model.load(plan), options, cpu_only()).parameters_sha256;
}

// Layers 0, 2, 4 and 5 are the embedding, the second block, the norm and the head.
constexpr const char* kModes[] = {
    "never",   "always", "except-last",        "full",     "full except-last",
    "0,2,4-5", "full:2", "full:2 except-last", "selective"};

Recompute recompute(const std::string& mode) {
  if (mode == "never") return {};
  const bool stage = mode == "always" || mode == "except-last";
  Recompute r = parse_recompute_word(stage ? "stage" : mode.substr(0, mode.find(' '))).value();
  r.except_last = mode.ends_with("except-last");
  return r;
}

// K in 1..4, several partitions each, both schedules, all modes; dropout on, head tied; M = 4.
void expect_every_pipeline_equal(const TinyModel& model, AttentionKind attention) {
  Plan single = model.plan({}, 4, "gpipe");
  single.attention = attention;
  const std::string expected = hash_after(model, single);
  int compared = 0;
  for (const std::vector<int>& boundaries :
       std::vector<std::vector<int>>{{}, {1}, {3}, {5}, {1, 3}, {2, 5}, {1, 2, 4}, {2, 3, 5}}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      for (const char* mode : kModes) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute = recompute(mode);
        plan.attention = attention;
        EXPECT_EQ(hash_after(model, plan), expected)
            << "K" << plan.pp << " " << schedule << " " << mode;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 144);
}

TEST(Training, ParametersAreBitwiseEqualForEveryPipeline) {
  expect_every_pipeline_equal(TinyModel(), AttentionKind::unfused);
}

// 20 tokens: three tiles of 8 query rows, the last of 4.
TEST(Training, ParametersAreBitwiseEqualWithFusedAttentionToo) {
  expect_every_pipeline_equal(TinyModel(true, 0.1, 32, 3, 20), AttentionKind::fused);
}

// Llama's block: RMS norms, turned positions, shared keys, a gated MLP, a head of its own; Qwen3's
// norms of heads and a tied one.
TEST(Training, ParametersOfALlamaAreBitwiseEqualForEveryPipeline) {
  const std::string dropout = R"(,"attention_dropout":0.1)";
  expect_every_pipeline_equal(TinyModel(tiny_llama("llama", kLlama3Scaling + dropout)),
                              AttentionKind::unfused);
  expect_every_pipeline_equal(
      TinyModel(tiny_llama("qwen3", R"(,"tie_word_embeddings":true)" + dropout, 3, 32, 20)),
      AttentionKind::fused);
}

// BERT's: norms behind the sums, attention to both sides, masked tokens of which few have a loss, a
// transform before the head. Layers 0, 2, 4 and 5 are the embedding, two blocks and the head.
TEST(Training, ParametersOfABertAreBitwiseEqualForEveryPipeline) {
  expect_every_pipeline_equal(TinyModel(tiny_bert(0.1)), AttentionKind::unfused);
  expect_every_pipeline_equal(
      TinyModel(tiny_bert(0.1, R"(,"tie_word_embeddings":false)", 4, 32, 20)),
      AttentionKind::fused);
}

// ViT's: patches behind a class token, of which alone the head reads.
TEST(Training, ParametersOfAVitAreBitwiseEqualForEveryPipeline) {
  expect_every_pipeline_equal(TinyModel(tiny_vit(0.1)), AttentionKind::unfused);
  expect_every_pipeline_equal(TinyModel(tiny_vit(0.1)), AttentionKind::fused);
}

// The same training by both kinds of attention, dropout of the probabilities included: they round
// differently, the losses agree as fp32 sums do.
TEST(Training, FusedAttentionLearnsTheSame) {
  const TinyModel model(true, 0.1, 32, 3, 20);
  Plan plan = model.plan({3}, 4);
  RunOptions options;
  options.steps = 5;
  const RunResult unfused = run(model.load(plan), options, cpu_only());
  plan.attention = AttentionKind::fused;
  const RunResult fused = run(model.load(plan), options, cpu_only());
  EXPECT_LT(fused.peak_memory.front(), unfused.peak_memory.front());
  for (std::size_t i = 0; i < fused.steps.size(); ++i) {
    EXPECT_NEAR(fused.steps[i].loss, unfused.steps[i].loss, 1e-5) << "step " << i;
  }
}

// Split backwards, chunks, waves: every schedule that keeps gradients in micro-batch order, on one
// model copy.
void expect_every_schedule_equal(const TinyModel& model) {
  const std::string expected = hash_after(model, model.plan({}, 6, "gpipe"), 2);
  const struct {
    const char* schedule;
    int vpp;
    std::vector<int> boundaries;
  } cases[] = {
      {"1f1b-eager", 1, {2, 4}},          {"zb-h1", 1, {2, 4}},         {"zb-h2", 1, {1, 3}},
      {"interleaved-1f1b", 2, {1, 3, 4}}, {"looped-bfs", 2, {1, 2, 4}}, {"zb-v", 2, {1, 3, 4}},
      {"v-half", 2, {1, 3, 5}},           {"v-min", 2, {2, 3, 4}},      {"dualpipev", 2, {1, 3, 4}},
      {"hanayo", 2, {1, 3, 4}},           {"zb-v", 2, {1, 2, 3, 4, 5}}};
  for (const auto& c : cases) {
    for (const char* mode : {"never", "always", "full", "0,2,4-5", "full:2", "selective"}) {
      Plan plan = model.plan(c.boundaries, 6, c.schedule);
      plan.pp = static_cast<int>(c.boundaries.size() + 1) / c.vpp;
      plan.vpp = c.vpp;
      plan.slots = 0;
      plan.recompute = recompute(mode);
      EXPECT_EQ(hash_after(model, plan, 2), expected) << c.schedule << " " << mode;
    }
  }
}

TEST(Training, EverySchedulesParametersAreBitwiseEqual) {
  expect_every_schedule_equal(TinyModel());
}

TEST(Training, EverySchedulesParametersOfAQwenAreBitwiseEqual) {
  expect_every_schedule_equal(TinyModel(tiny_llama("qwen2", R"(,"tie_word_embeddings":true)")));
}

TEST(Training, EverySchedulesParametersOfABertAreBitwiseEqual) {
  expect_every_schedule_equal(TinyModel(tiny_bert(0.1)));
}

// Two copies sum partial sums: the same bits every time, and the loss of one copy to rounding.
TEST(Training, BidirectionalSchedulesRepeatAndAgree) {
  const TinyModel model;
  RunOptions options;
  options.steps = 3;
  const RunResult single = run(model.load(model.plan({}, 4, "gpipe")), options, cpu_only());
  for (const char* schedule : {"dualpipe", "chimera"}) {
    Plan plan = model.plan({3}, 4, schedule);
    plan.slots = 0;
    const RunResult both = run(model.load(plan), options, cpu_only());
    EXPECT_EQ(both.parameters_sha256, run(model.load(plan), options, cpu_only()).parameters_sha256)
        << schedule;
    for (std::size_t i = 0; i < both.steps.size(); ++i) {
      EXPECT_NEAR(both.steps[i].loss, single.steps[i].loss, 1e-4) << schedule << " step " << i;
    }
  }
}

// The hash sees what it should: another seed, another M, one more step give other parameters.
TEST(Training, OtherRunsGiveOtherParameters) {
  const TinyModel model;
  const Plan plan = model.plan({2}, 4);
  const std::string base = hash_after(model, plan);
  Plan other = plan;
  other.seed = 2;
  EXPECT_NE(hash_after(model, other), base);
  EXPECT_NE(hash_after(model, plan, 4), base);
  EXPECT_NE(hash_after(model, model.plan({2}, 2)), base);
}

TEST(Training, SgdIsBitwiseEqualToo) {
  const TinyModel model(false);
  Plan one = model.plan({}, 2), three = model.plan({2, 4}, 2);
  for (Plan* plan : {&one, &three})
    plan->optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .momentum = 0.9};
  EXPECT_EQ(hash_after(model, one), hash_after(model, three));
}

// Bytes of a shipped text: 40 steps bring the loss from about ln 256 = 5.55 (uniform) to below 3.5.
TEST(Training, LearnsAShippedText) {
  const TinyModel model(true, 0.0, 256, 2);
  Plan plan = model.plan({2}, 4);
  plan.micro_batch_size = 8;
  plan.optimizer.learning_rate = 2e-2;
  RunOptions options;
  options.steps = 60;
  options.warmup_steps = 0;
  options.data = {std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/data/weirs.txt"};
  const RunResult result = run(model.load(plan), options, cpu_only());
  EXPECT_GT(result.steps.front().loss, 5.0);
  double last = 0;
  for (std::size_t i = 50; i < 60; ++i) last += result.steps[i].loss / 10;
  EXPECT_LT(last, 3.5);
}

// The measured peak is the forecast's for the same spans, to 1 %, whatever the plan.
void expect_predicted_peak(const TinyModel& model, const Plan& plan) {
  const ResolvedPlan loaded = model.load(plan);
  const RunResult result = run(loaded, traced_steps(3), cpu_only());
  const auto peaks = peaks_of_all_steps(loaded, result);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    const auto measured = static_cast<double>(result.peak_memory[rank].count());
    const auto predicted = static_cast<double>(peaks[rank].peak.count());
    // The tiny model's messages are large beside its weights: one slot more or less is
    // allowed for timing.
    const auto message = static_cast<double>(plan.micro_batch_size * plan.seq_length * 16 * 4);
    EXPECT_NEAR(predicted, measured, 0.01 * measured + message)
        << "K" << plan.pp << " " << plan.schedule << " " << recompute_word(plan.recompute)
        << " rank " << rank;
    std::int64_t parts = 0;
    for (const Bytes part : peaks[rank].at_peak.values) parts += part.count();
    EXPECT_EQ(parts, peaks[rank].peak.count());
  }
}

void expect_predicted_peaks(const TinyModel& model, AttentionKind attention) {
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {3}, {2, 4}}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      for (const char* mode : kModes) {
        Plan plan = model.plan(boundaries, 6, schedule);
        plan.recompute = recompute(mode);
        plan.attention = attention;
        expect_predicted_peak(model, plan);
      }
    }
  }
}

TEST(Memory, PredictedPeakIsTheArenas) {
  expect_predicted_peaks(TinyModel(), AttentionKind::unfused);
}

TEST(Memory, PredictedPeakIsTheArenasWithFusedAttentionToo) {
  expect_predicted_peaks(TinyModel(true, 0.1, 32, 3, 20), AttentionKind::fused);
}

TEST(Memory, PredictedPeakIsTheArenasForEveryOptimizer) {
  using enum OptimizerKind;
  const TinyModel model;
  for (const Optimizer& optimizer :
       {Optimizer{.kind = sgd}, Optimizer{.kind = sgd, .momentum = 0.9}, Optimizer{.kind = rmsprop},
        Optimizer{.kind = rmsprop, .momentum = 0.9}, Optimizer{.kind = adam},
        Optimizer{.clip_norm = 1}}) {
    SCOPED_TRACE(to_string(optimizer.kind));
    Plan plan = model.plan({3}, 6);
    plan.optimizer = optimizer;
    expect_predicted_peak(model, plan);
  }
}

TEST(Memory, PredictedPeakIsTheArenasOfLlamas) {
  expect_predicted_peaks(TinyModel(tiny_llama("llama", kLlama3Scaling)), AttentionKind::unfused);
  expect_predicted_peaks(TinyModel(tiny_llama("qwen3", "", 3, 32, 20)), AttentionKind::fused);
}

TEST(Memory, PredictedPeakIsTheArenasOfBerts) {
  expect_predicted_peaks(TinyModel(tiny_bert(0.1)), AttentionKind::unfused);
  expect_predicted_peaks(TinyModel(tiny_bert(0.1, "", 4, 32, 20)), AttentionKind::fused);
}

TEST(Memory, PredictedPeakIsTheArenasOfAVit) {
  expect_predicted_peaks(TinyModel(tiny_vit(0.1)), AttentionKind::unfused);
}

// Median over plans and steps of |replay without gaps / measured - 1|; with gaps the replay must be
// exact every time.
double replay_error(const TinyModel& model) {
  std::vector<double> errors;
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {3}, {4}}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      Plan plan = model.plan(boundaries, 6, schedule);
      plan.micro_batch_size = 64;  // long enough that gaps are small beside it
      const ResolvedPlan loaded = model.load(plan);
      RunOptions options;
      options.steps = 5;
      const RunResult result = run(loaded, options, cpu_only());
      const Program& program = loaded.program;
      for (std::int32_t step = 0; step < options.steps; ++step) {
        std::int64_t last = 0;
        for (const Span& span : result.trace.spans) {
          if (span.step == step) last = std::max(last, span.end.count());
        }
        const double measured = static_cast<double>(
            last - result.trace.steps[static_cast<std::size_t>(step)].start.count());
        const auto replay = [&](ReplayGaps gaps) {
          const auto timing = simulate(program, replay_costs(program, result.trace, step, gaps));
          return static_cast<double>(std::get<Timing>(timing).makespan.count());
        };
        EXPECT_EQ(replay(ReplayGaps::keep), measured) << "K" << plan.pp << " " << schedule;
        errors.push_back(std::abs(replay(ReplayGaps::drop) / measured - 1));
      }
    }
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() / 2];
}

std::int64_t involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Durations and gaps as measured give the measured makespan exactly; without the gaps, within 1 %
// in the median. A gap is also what another process makes by taking a core away, so an attempt
// counts only where that happened less than once in two steps; a machine that never leaves us alone
// for one attempt in ten cannot answer.
TEST(Replay, GivesTheMeasuredStepAgain) {
  const TinyModel model(true, 0.1, 256, 4);
  constexpr std::int64_t kSteps = 6 * (5 + 1);
  std::string seen;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const std::int64_t before = involuntary_switches();
    const double error = replay_error(model);
    const std::int64_t switches = involuntary_switches() - before;
    seen += std::to_string(switches) + " switches: " + std::to_string(error) + "; ";
    if (error < 0.01) return;
    ASSERT_GT(switches, kSteps / 2) << "undisturbed, and yet " << error;
  }
  GTEST_SKIP() << "the cores were taken away all the time: " << seen;
}

// Seeded random plans: all finish. K to 4 trained (more ranks than cores, too), K to 32 as timed
// waits.
TEST(Progress, RandomPlansNeverDeadlock) {
  const TinyModel model(true, 0.1, 32, 3);
  std::mt19937 random(3);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 25; ++trial) {
    SCOPED_TRACE("seed 3, trial " + std::to_string(trial));
    std::vector<int> boundaries;
    for (int layer = 1; layer < 6 && boundaries.size() < 3; ++layer) {
      if (pick(0, 1) == 1) boundaries.push_back(layer);
    }
    Plan plan = model.plan(boundaries, pick(1, 64), pick(0, 1) == 0 ? "gpipe" : "1f1b");
    plan.slots = pick(1, 4);
    plan.micro_batch_size = 1;
    plan.recompute = recompute(kModes[trial % std::size(kModes)]);
    RunOptions options;
    options.steps = 1;
    EXPECT_EQ(run(model.load(plan), options, cpu_only()).steps.size(), 2U);
  }
}

TEST(Progress, RandomSyntheticPlansRunInThePlannedOrder) {
  const TinyModel model(true, 0.0, 32, 40);
  std::mt19937 random(4);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE("seed 4, trial " + std::to_string(trial));
    const int k = pick(1, 32);
    std::vector<int> boundaries;
    for (int s = 1; s < k; ++s) boundaries.push_back(s);
    Plan plan = model.plan(boundaries, pick(1, 64), pick(0, 1) == 0 ? "gpipe" : "1f1b");
    plan.slots = pick(1, 4);
    const ResolvedPlan loaded = model.load(plan);
    const Program& program = loaded.program;
    RunOptions options;
    options.backend = BackendKind::synthetic;
    options.steps = 1;
    options.warmup_steps = 0;
    options.synthetic_duration_ns.assign(program.size(), 1000);
    const RunResult result = run(loaded, options, {});
    for (const Lane& lane : program.lanes()) {
      for (OperationId id = lane.first + 1; id < lane.last; ++id) {
        ASSERT_GE(result.trace.spans[id.position()].start,
                  result.trace.spans[id.position() - 1].end);
      }
      for (const OperationId id : lane.operations()) {
        for (const Dependency& before : program.predecessors(id)) {
          const Span& earlier = result.trace.spans[before.before.position()];
          const Span& later = result.trace.spans[id.position()];
          ASSERT_GE(lane.kind == LaneKind::receive ? later.end : later.start, earlier.end);
        }
      }
    }
  }
}

// Each generator's schedule, waited out: the measured order is the planned one.
TEST(Progress, EveryScheduleRunsInItsOrder) {
  const TinyModel model(true, 0.0, 32, 14);
  for (const Generator& generator : generators()) {
    const int v = generator.default_chunks;
    std::vector<int> boundaries;
    for (int s = 1; s < 4 * v; ++s) boundaries.push_back(s);
    Plan plan = model.plan(boundaries, 8, std::string(generator.name));
    plan.pp = 4;
    plan.vpp = v;
    plan.slices = generator.default_slices;
    plan.slots = 0;
    const ResolvedPlan loaded = model.load(plan);
    const Program& program = loaded.program;
    RunOptions options;
    options.backend = BackendKind::synthetic;
    options.steps = 1;
    options.warmup_steps = 0;
    options.synthetic_duration_ns.assign(program.size(), 20'000);
    const RunResult result = run(loaded, options, {});
    for (const Lane& lane : program.lanes()) {
      for (OperationId id = lane.first + 1; id < lane.last && lane.kind == LaneKind::compute;
           ++id) {
        ASSERT_GE(result.trace.spans[id.position()].start,
                  result.trace.spans[id.position() - 1].end)
            << generator.name;
      }
    }
  }
}

TEST(Run, SaysWhatItCannotDo) {
  const TinyModel model;
  EXPECT_THROW(static_cast<void>(run(model.load(model.plan({}, 1)), {}, {})), MissingComponent);
  Plan half = model.plan({}, 1);
  half.dtype = Dtype::bf16;
  EXPECT_THROW(static_cast<void>(run(model.load(half), {}, cpu_only())), UsageError);
  RunOptions no_data;
  no_data.data = {"/nonexistent/text"};
  EXPECT_THROW(static_cast<void>(run(model.load(model.plan({}, 1)), no_data, cpu_only())),
               InputError);
}

// A device that fails in the middle of a step stops all ranks and the error comes out.
TEST(Run, OneFailingRankStopsAll) {
  const TinyModel model;
  class Failing : public BlockSource {
    void* allocate(std::int64_t) override { throw std::bad_alloc(); }
    void release(void*, std::int64_t) noexcept override {}
  };
  const Backends backends{
      {BackendKind::cpu, [](const BackendRequest& request) -> std::unique_ptr<Backend> {
         if (request.rank == 1) throw MissingComponent("no such device");
         return make_cpu_backend(request);
       }}};
  EXPECT_THROW(static_cast<void>(run(model.load(model.plan({3}, 4)), {}, backends)),
               MissingComponent);
}

}  // namespace
}  // namespace weir::training_test

// The executor itself - streams, events, graphs, green contexts, cuBLASLt, cuDNN - on a recorded
// machine: whole training steps without a violation, with the CPU's losses; and what is planted is
// found or handled.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny_cnn.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded::training_test {
namespace {

using RecordedTraining = Recorded;

// As in tests/exec_cuda/training_test: fp32 sums in another order, after a few steps.
constexpr double kTolerance = 1e-3;

void expect_losses(const RunResult& found, const RunResult& expected, double tolerance) {
  ASSERT_EQ(found.steps.size(), expected.steps.size());
  for (std::size_t step = 0; step < expected.steps.size(); ++step) {
    const double loss = expected.steps[step].loss;
    EXPECT_NEAR(found.steps[step].loss, loss, tolerance * loss) << "step " << step;
  }
}

RunResult on_cpu(const ResolvedPlan& loaded, int steps) {
  RunOptions options;
  options.steps = steps;
  options.warmup_steps = 0;
  return train(loaded, options);
}

struct Pipeline {
  const char* schedule;
  int vpp;
  std::vector<int> boundaries;
};

Plan plan_of(const TinyModel& model, const Pipeline& pipeline, int microbatches) {
  Plan plan = model.plan(pipeline.boundaries, microbatches, pipeline.schedule);
  plan.pp = static_cast<int>(pipeline.boundaries.size() + 1) / pipeline.vpp;
  plan.vpp = pipeline.vpp;
  return plan;
}

// On one GPU, launched and as a graph, and on GPUs of their own.
void expect_no_violation(const Pipeline& pipeline) {
  const int stages = static_cast<int>(pipeline.boundaries.size()) + 1;
  const TinyModel model(true, 0.1, 32, std::max(1, stages - 3), 4);
  const ResolvedPlan loaded = model.load(plan_of(model, pipeline, std::min(stages + 1, 4)));
  const RunResult expected = on_cpu(loaded, 2);
  std::string parameters;
  const struct {
    int devices;
    Graphs graphs;
  } ways[] = {{1, Graphs::never}, {1, Graphs::always}, {loaded.plan.pp, Graphs::never}};
  for (const auto& way : ways) {
    SCOPED_TRACE(std::string(pipeline.schedule) + ", K " + std::to_string(loaded.plan.pp) +
                 ", devices " + std::to_string(way.devices) +
                 (way.graphs == Graphs::always ? ", graphs" : ""));
    machine().reset(way.devices, static_cast<unsigned>(stages));
    const RunResult found = train(loaded, steps_on_cuda(2, way.graphs));
    expect_losses(found, expected, kTolerance);
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
    if (parameters.empty()) parameters = found.parameters_sha256;
    EXPECT_EQ(found.parameters_sha256, parameters);
  }
}

TEST_F(RecordedTraining, OneStage) { expect_no_violation({"gpipe", 1, {}}); }
TEST_F(RecordedTraining, TwoStages) { expect_no_violation({"1f1b", 1, {2}}); }
TEST_F(RecordedTraining, ThreeStagesWithSplitBackwards) {
  expect_no_violation({"zb-h1", 1, {1, 2}});
}
TEST_F(RecordedTraining, FourStages) { expect_no_violation({"zb-h2", 1, {1, 2, 3}}); }
TEST_F(RecordedTraining, FiveStages) { expect_no_violation({"1f1b-eager", 1, {1, 2, 3, 4}}); }
TEST_F(RecordedTraining, SixStages) { expect_no_violation({"zb-h1", 1, {1, 2, 3, 4, 5}}); }
TEST_F(RecordedTraining, SevenStages) { expect_no_violation({"gpipe", 1, {1, 2, 3, 4, 5, 6}}); }
TEST_F(RecordedTraining, ChunksInTurn) { expect_no_violation({"interleaved-1f1b", 2, {1, 2, 3}}); }
TEST_F(RecordedTraining, ChunksAsAV) { expect_no_violation({"v-half", 2, {1, 2, 3}}); }
TEST_F(RecordedTraining, EightStages) { expect_no_violation({"1f1b", 1, {1, 2, 3, 4, 5, 6, 7}}); }

// What of the catalogue no test above runs, as a graph on one GPU. Copies of the weights sum in
// another order.
TEST_F(RecordedTraining, EverySchedule) {
  const std::set<std::string_view> above = {"gpipe", "1f1b",   "1f1b-eager",      "zb-h1",
                                            "zb-h2", "v-half", "interleaved-1f1b"};
  const TinyModel model(true, 0.1, 32, 1, 4);
  for (const Generator& generator : generators()) {
    if (above.contains(generator.name)) continue;
    SCOPED_TRACE(generator.name);
    const bool chunks = generator.default_chunks > 1;
    const std::string name(generator.name);
    Plan plan = plan_of(
        model, chunks ? Pipeline{name.c_str(), 2, {1, 2, 3}} : Pipeline{name.c_str(), 1, {2}}, 4);
    plan.slots = 0;
    const ResolvedPlan loaded = model.load(plan);
    machine().reset(1);
    expect_losses(train(loaded, steps_on_cuda(2, Graphs::always)), on_cpu(loaded, 2), kTolerance);
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
    machine().forget();
  }
}

// Attention over slices of a sequence needs the keys and values of the slices before: no backend
// keeps them, and a run says so before anything is launched.
TEST_F(RecordedTraining, SlicesOfSequencesAreRefused) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  Plan plan = plan_of(model, {"seq1f1b", 1, {2}}, 4);
  plan.slices = 2;
  const ResolvedPlan loaded = model.load(plan);
  try {
    static_cast<void>(train(loaded, steps_on_cuda(1)));
    ADD_FAILURE() << "it trains";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("slices of sequences cannot be trained"));
  }
  EXPECT_EQ(machine().launches, 0);
}

// One rank's step is a graph wherever CUDA takes it, with the bits of the launched one; where it
// does not, at whichever point, the run goes on and says why.
TEST_F(RecordedTraining, AStepOfOneRankIsAGraphWhereItCanBe) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  const ResolvedPlan loaded = model.load(plan_of(model, {"gpipe", 1, {}}, 2));
  const RunResult launched = train(loaded, steps_on_cuda(4));
  EXPECT_FALSE(launched.graph);
  using Capture = Faults::Capture;
  for (const Capture fault : {Capture::none, Capture::begin, Capture::product, Capture::launch,
                              Capture::end, Capture::instantiate}) {
    machine().reset(1);
    machine().faults.capture = fault;
    const RunResult found = train(loaded, steps_on_cuda(4, Graphs::where_possible));
    SCOPED_TRACE(found.graph_refused.value_or("a graph"));
    EXPECT_EQ(found.parameters_sha256, launched.parameters_sha256);
    EXPECT_EQ(found.graph, fault == Capture::none);
    EXPECT_EQ(found.graph_refused.has_value(), fault != Capture::none);
    EXPECT_EQ(found.peak_memory, launched.peak_memory);
    for (std::size_t step = 1; step < 4; ++step) EXPECT_EQ(found.steps[step].allocations, 0);
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
  }
  // Of two ranks only where it is asked for.
  const ResolvedPlan two = model.load(plan_of(model, {"1f1b", 1, {2}}, 2));
  machine().reset(1);
  EXPECT_FALSE(train(two, steps_on_cuda(2, Graphs::where_possible)).graph);
}

// On a share of the device as on all of it: a handle belongs to the context it is made in, so each
// group has one of its own, and it has forgotten a stream before that ends.
TEST_F(RecordedTraining, CudnnRunsInEveryGroup) {
  const TinyModel model(true, 0.0, 32, 1, 4);
  for (const Pipeline& pipeline : {Pipeline{"gpipe", 1, {}}, Pipeline{"1f1b", 1, {2}}}) {
    Plan plan = plan_of(model, pipeline, 2);
    const RunResult expected = on_cpu(model.load(plan), 2);
    plan.dtype = Dtype::bf16;
    plan.attention = AttentionKind::fused;
    const RunResult found = train(model.load(plan), steps_on_cuda(2));
    expect_losses(found, expected, 2e-2);  // bf16's roundings, as in tests/exec_cuda/training_test
    ASSERT_EQ(found.devices.size(), static_cast<std::size_t>(plan.pp));
    EXPECT_EQ(found.devices.front().attention, "cuDNN");  // the rank that has the block
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
  }
}

// Llama's family on shares of a device and as a graph, with cuDNN's attention where it suits (heads
// of 8 in bf16) and our own: no violation, the CPU's losses, and the bits of the launched step;
// with products that were timed the losses too.
TEST_F(RecordedTraining, LlamasFamilyTrains) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    TinyConfig config = tiny_llama(family, kLlama3Scaling, 1, 32, 4);
    config.text.replace(config.text.find(R"("head_dim":6)"), 12, R"("head_dim":8)");
    const TinyModel model(config);
    Plan plan = plan_of(model, {"1f1b", 1, {2}}, 2);
    const RunResult expected = on_cpu(model.load(plan), 2);
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      plan.dtype = dtype;
      plan.attention = AttentionKind::fused;
      std::string parameters;
      for (const Graphs graphs : {Graphs::never, Graphs::always}) {
        machine().reset(1);
        const RunResult found = train(model.load(plan), steps_on_cuda(2, graphs));
        expect_losses(found, expected, dtype == Dtype::fp32 ? kTolerance : 2e-2);
        EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
        if (parameters.empty()) parameters = found.parameters_sha256;
        EXPECT_EQ(found.parameters_sha256, parameters);
#ifdef WEIR_HAS_CUDNN
        EXPECT_EQ(found.devices.front().attention == "cuDNN", dtype == Dtype::bf16);
#endif
      }
    }
    machine().reset(1);
    RunOptions timed = steps_on_cuda(2);
    timed.fastest = true;
    expect_losses(train(model.load(plan), timed), expected, 2e-2);
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
  }
}

// On one rank, on shares of a device and on devices of their own, by cuDNN where it suits and by
// our own kernels: no violation, the CPU's losses, one set of bits. Each step's loss is a mean over
// another number of labels, so no graph repeats it, and a line says so.
TEST_F(RecordedTraining, ABertTrains) {
  for (const double dropout : {0.1, 0.0}) {
    const TinyModel model(tiny_bert(dropout, "", 2, 37, 8));
    const RunResult expected = on_cpu(model.load(plan_of(model, {"gpipe", 1, {}}, 2)), 3);
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      std::string parameters;
      for (const int devices : {1, 2}) {
        for (const Pipeline& pipeline :
             {Pipeline{"gpipe", 1, {}}, Pipeline{"1f1b", 1, {2}}, Pipeline{"zb-h1", 1, {1, 3}}}) {
          Plan plan = plan_of(model, pipeline, 2);
          plan.dtype = dtype;
          plan.attention = AttentionKind::fused;
          machine().reset(devices);
          const RunResult found = train(model.load(plan), steps_on_cuda(3, Graphs::where_possible));
          expect_losses(found, expected, dtype == Dtype::fp32 ? kTolerance : 2e-2);
          EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
          if (parameters.empty()) parameters = found.parameters_sha256;
          EXPECT_EQ(found.parameters_sha256, parameters);
          EXPECT_FALSE(found.graph);
          EXPECT_EQ(found.graph_refused.has_value(), plan.pp == 1);
#ifdef WEIR_HAS_CUDNN
          if (plan.pp == 1) {
            EXPECT_EQ(found.devices.front().attention == "cuDNN",
                      dtype == Dtype::bf16 && dropout == 0);
          }
#endif
        }
      }
      machine().reset(1);
      EXPECT_THROW(static_cast<void>(train(model.load(plan_of(model, {"gpipe", 1, {}}, 2)),
                                           steps_on_cuda(1, Graphs::always))),
                   UsageError);
      RunOptions timed = steps_on_cuda(3);
      timed.fastest = true;
      expect_losses(train(model.load(plan_of(model, {"gpipe", 1, {}}, 2)), timed), expected,
                    kTolerance);
    }
  }
}

// The same of images, whose step can be a graph.
TEST_F(RecordedTraining, AVitTrains) {
  for (const double dropout : {0.1, 0.0}) {
    const TinyModel model(tiny_vit(dropout, 2));
    const RunResult expected = on_cpu(model.load(plan_of(model, {"gpipe", 1, {}}, 2)), 3);
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      std::string parameters;
      for (const Graphs graphs : {Graphs::never, Graphs::always}) {
        for (const Pipeline& pipeline :
             {Pipeline{"gpipe", 1, {}}, Pipeline{"1f1b", 1, {2}}, Pipeline{"zb-h1", 1, {1, 3}}}) {
          Plan plan = plan_of(model, pipeline, 2);
          plan.dtype = dtype;
          plan.attention = AttentionKind::fused;
          machine().reset(1);
          const RunResult found = train(model.load(plan), steps_on_cuda(3, graphs));
          expect_losses(found, expected, dtype == Dtype::fp32 ? kTolerance : 2e-2);
          EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
          if (parameters.empty()) parameters = found.parameters_sha256;
          EXPECT_EQ(found.parameters_sha256, parameters);
        }
      }
    }
  }
}

// Cells: as launches and as a graph, on one rank, on shares of a device and on devices of their
// own. No violation, one set of bits; and of fp32 the CPU's losses, by SGD, as
// tests/exec_cuda/training_test says why.
void expect_cells_to_train(const TinyConfig& config) {
  const TinyModel model(config);
  const auto planned = [&](const Pipeline& pipeline, Dtype dtype) {
    Plan plan = plan_of(model, pipeline, 2);
    plan.micro_batch_size = 8;
    plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e-4, .momentum = 0.9};
    plan.dtype = dtype;
    return plan;
  };
  const RunResult expected = on_cpu(model.load(planned({"gpipe", 1, {}}, Dtype::fp32)), 2);
  const struct {
    Dtype dtype;
    int devices;
    Graphs graphs;
  } ways[] = {{Dtype::fp32, 1, Graphs::never},
              {Dtype::fp32, 1, Graphs::always},
              {Dtype::fp32, 2, Graphs::never},
              {Dtype::bf16, 1, Graphs::always}};
  std::map<Dtype, std::string> parameters;
  for (const auto& [dtype, devices, graphs] : ways) {
    for (const Pipeline& pipeline :
         {Pipeline{"gpipe", 1, {}}, Pipeline{"1f1b", 1, {2}}, Pipeline{"zb-h1", 1, {1, 3}}}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " " + pipeline.schedule);
      machine().reset(devices);
      const RunResult found = train(model.load(planned(pipeline, dtype)), steps_on_cuda(2, graphs));
      if (dtype == Dtype::fp32) expect_losses(found, expected, kTolerance);
      EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
      std::string& first = parameters[dtype];
      if (first.empty()) first = found.parameters_sha256;
      EXPECT_EQ(found.parameters_sha256, first);
    }
  }
}

TEST_F(RecordedTraining, AResNetTrains) { expect_cells_to_train(tiny_resnet()); }
TEST_F(RecordedTraining, AUNetTrains) { expect_cells_to_train(tiny_unet()); }
TEST_F(RecordedTraining, AnAmoebaNetTrains) { expect_cells_to_train(tiny_amoebanet()); }

// A window is cuDNN's too, with the losses of our own kernels.
TEST_F(RecordedTraining, CudnnKeepsToAWindow) {
  TinyConfig config = tiny_llama("llama", "", 1, 32, 4);
  config.text.replace(config.text.find(R"("head_dim":6)"), 12, R"("head_dim":8)");
  const TinyModel model(config);
  Plan plan = plan_of(model, {"gpipe", 1, {}}, 2);
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  ResolvedPlan loaded = model.load(plan);
  std::get<TransformerShape>(loaded.model.layers[1].shape).window = 2;
  const RunResult by_cudnn = train(loaded, steps_on_cuda(2));
  machine().reset(1);
  machine().faults.absent_libraries = true;
  const RunResult own = train(loaded, steps_on_cuda(2));
  EXPECT_TRUE(own.devices.front().attention.starts_with("own ("));
#ifdef WEIR_HAS_CUDNN
  EXPECT_EQ(by_cudnn.devices.front().attention, "cuDNN");
#endif
  expect_losses(by_cudnn, own, 2e-2);
}

// Clipped by the norm of all ranks' gradients, on shares of a device, as a graph and on devices of
// their own: the CPU's losses and norms, and one set of bits for every K.
TEST_F(RecordedTraining, GradientsAreClipped) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  const struct {
    Pipeline pipeline;
    int devices;
    Graphs graphs;
  } ways[] = {{{"gpipe", 1, {}}, 1, Graphs::never},
              {{"gpipe", 1, {}}, 1, Graphs::always},
              {{"1f1b", 1, {2}}, 1, Graphs::never},
              {{"1f1b", 1, {1, 2}}, 3, Graphs::never}};
  RunResult expected;
  std::string parameters;
  for (const auto& way : ways) {
    SCOPED_TRACE(std::to_string(way.pipeline.boundaries.size() + 1) + " stages");
    Plan plan = plan_of(model, way.pipeline, 3);
    plan.optimizer.clip_norm = 0.05;  // below the tiny model's norm, of about 1
    const ResolvedPlan loaded = model.load(plan);
    if (parameters.empty()) expected = on_cpu(loaded, 3);
    machine().reset(way.devices, 3);
    const RunResult found = train(loaded, steps_on_cuda(3, way.graphs));
    expect_losses(found, expected, kTolerance);
    for (std::size_t step = 0; step < 3; ++step) {
      const double norm = expected.steps[step].gradient_norm.value();
      EXPECT_GT(norm, 0.05);
      EXPECT_NEAR(found.steps[step].gradient_norm.value(), norm, (step == 0 ? 1e-5 : 1e-2) * norm);
    }
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
    if (parameters.empty()) parameters = found.parameters_sha256;
    EXPECT_EQ(found.parameters_sha256, parameters);
  }
}

// A machine with the toolkit alone: attention is our own kernels', and the run says why.
TEST_F(RecordedTraining, WithoutCudnnAttentionIsOurOwn) {
  const TinyModel model(true, 0.0, 32, 1, 4);
  Plan plan = plan_of(model, {"gpipe", 1, {}}, 2);
  const RunResult expected = on_cpu(model.load(plan), 2);
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  machine().faults.absent_libraries = true;
  const RunResult found = train(model.load(plan), steps_on_cuda(2));
  expect_losses(found, expected, 2e-2);
  EXPECT_EQ(found.devices.front().attention, "own (no libcudnn.so.9 on this machine)");
}

// A wait that is dropped is found, whichever it is of those that nothing else stands in for.
TEST_F(RecordedTraining, ADroppedWaitIsFound) {
  const TinyModel model(true, 0.0, 32, 1, 4);
  const ResolvedPlan loaded = model.load(plan_of(model, {"1f1b", 1, {2}}, 3));
  static_cast<void>(train(loaded, steps_on_cuda(1)));
  const std::int64_t waits = machine().waits;
  std::string missed;
  std::int64_t found = 0;
  for (std::int64_t wait = 1; wait <= waits; ++wait) {
    machine().reset(1, 7);
    machine().faults.dropped_wait = wait;
    static_cast<void>(train(loaded, steps_on_cuda(1)));
    if (machine().violations().empty()) missed += " " + std::to_string(wait);
    found += static_cast<std::int64_t>(!machine().violations().empty());
    machine().forget();
  }
  EXPECT_GE(found, 6) << "of " << waits << ", missed" << missed;
}

// Whatever fails at the n-th call of a library: one line that says so, or a way without it.
TEST_F(RecordedTraining, AnErrorAtAnyCallIsOneLine) {
  const TinyModel model(true, 0.0, 32, 1, 4);
  Plan plan = plan_of(model, {"1f1b", 1, {2}}, 2);
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  const ResolvedPlan loaded = model.load(plan);
  const RunResult expected = train(loaded, steps_on_cuda(2, Graphs::always));
  const std::int64_t calls = machine().calls;
  int failed = 0, went_on = 0;
  for (std::int64_t call = 1; call <= calls; call += 1 + calls / 30) {
    machine().reset(1);
    machine().faults.failing_call = call;
    try {
      expect_losses(train(loaded, steps_on_cuda(2, Graphs::always)), expected, 2e-2);
      ++went_on;
    } catch (const std::exception& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()), "");
      ++failed;
    }
    EXPECT_LE(machine().failures, 1) << call;
    machine().forget();  // what a failure leaves behind is not the step's
  }
  EXPECT_GT(failed, 10);
  EXPECT_GT(went_on, 0);
}

}  // namespace
}  // namespace weir::recorded::training_test

// What a plan in bf16 asks of a backend: which tensors there are and how large. No kernel runs
// here: the backend keeps host memory and notes what it is given.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "costmodel/memory/memory.hpp"
#include "exec/device/host_blocks.hpp"
#include "exec/training/stored.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::mixed_precision_test {
namespace {

struct Noted {
  std::vector<std::uint32_t> steps;                 // of begin_step
  int updates = 0;                                  // with a master copy
  std::vector<std::vector<std::uint16_t>> working;  // weights at the first step's update
  std::vector<std::vector<float>> masters;
};

class NotingBackend : public Backend {
 public:
  explicit NotingBackend(Noted& noted) : noted_(noted) {}
  void* allocate(std::int64_t bytes) override { return blocks_.allocate(bytes); }
  void release(void* block, std::int64_t bytes) noexcept override { blocks_.release(block, bytes); }
  void prepare(std::span<const Layer>, std::int64_t, std::int64_t) override {}
  std::int64_t scratch_bytes() const override { return 0; }
  void use_scratch(const Tensor&) override {}
  void begin_step(std::uint32_t step) override { noted_.steps.push_back(step); }
  void forward(const LayerCall& call) override {
    if (call.loss != nullptr) *call.loss = 0;
  }
  void backward_input(const LayerCall&) override {}
  void backward_weight(const LayerCall&) override {}
  void update(std::span<const UpdateCall> calls) override {
    for (const UpdateCall& call : calls) note(call);
  }
  void note(const UpdateCall& call) {
    if (call.master) ++noted_.updates;
    if (noted_.steps.size() > 1 || !call.master) return;
    const auto* working = reinterpret_cast<const std::uint16_t*>(call.weight.data);
    noted_.working.emplace_back(working, working + call.elements);
    noted_.masters.emplace_back(call.master.floats(), call.master.floats() + call.elements);
  }
  void finish() override {}
  void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
    std::memcpy(to.data, from, static_cast<std::size_t>(bytes));
  }
  void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
    std::memcpy(to, from.data, static_cast<std::size_t>(bytes));
  }

 private:
  HostBlocks blocks_;
  Noted& noted_;
};

RunResult run_noting(const ResolvedPlan& loaded, std::vector<Noted>& noted, int steps) {
  noted.assign(static_cast<std::size_t>(loaded.plan.pp), {});
  RunOptions options;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(loaded, options, {{BackendKind::cpu, [&noted](const BackendRequest& request) {
                                  return std::make_unique<NotingBackend>(
                                      noted[static_cast<std::size_t>(request.rank)]);
                                }}});
}

Plan bf16_plan(const TinyModel& model, const std::vector<int>& boundaries) {
  Plan plan = model.plan(boundaries, 4);
  plan.dtype = Dtype::bf16;
  return plan;
}

// Weights 2 bytes, master copies 4, gradients 4, moments 8, activations 2, statistics and norm
// gradients 4. With K = 1 nothing travels, so the peak is the forecast's to the byte; with more,
// one message slot more or less is a matter of timing (tests/exec/training_test.cpp). A vocabulary
// of 33 pads its rows of logits, and its table by 7 rows.
TEST(MixedPrecision, PredictedPeakIsTheArenas) {
  const TinyModel model(true, 0.1, 33);
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {3}, {2, 4}}) {
    for (const RecomputeMode mode :
         {RecomputeMode::none, RecomputeMode::full, RecomputeMode::stage}) {
      Plan plan = bf16_plan(model, boundaries);
      plan.recompute.mode = mode;
      const ResolvedPlan loaded = model.load(plan);
      std::vector<Noted> noted;
      const RunResult result = run_noting(loaded, noted, 1);
      const Program& program = loaded.program;
      const std::span<const Span> spans(result.trace.spans.data(), program.size());
      const auto peaks = memory_peaks(loaded, program, spans, result.scratch);
      for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
        const auto measured = static_cast<double>(result.peak_memory[rank].count());
        const auto predicted = static_cast<double>(peaks[rank].peak.count());
        EXPECT_NEAR(predicted, measured, peaks.size() == 1 ? 0 : 0.01 * measured + 1024)
            << "K" << plan.pp << " rank " << rank;
      }
    }
  }
}

// Every working copy is its master rounded, and each tied weight, held on two stages, is updated on
// both.
TEST(MixedPrecision, WorkingWeightsAreTheMastersRounded) {
  const TinyModel model;
  std::vector<Noted> noted;
  static_cast<void>(run_noting(model.load(bf16_plan(model, {3})), noted, 1));
  for (const Noted& rank : noted) {
    ASSERT_FALSE(rank.masters.empty());
    for (std::size_t i = 0; i < rank.masters.size(); ++i) {
      for (std::size_t j = 0; j < rank.masters[i].size(); ++j) {
        ASSERT_EQ(rank.working[i][j], to_bf16(rank.masters[i][j]));
      }
    }
  }
}

// The hash is of fp32 masters: before any update it is the fp32 run's, which bf16 copies could not
// give.
TEST(MixedPrecision, TheHashCoversTheMasters) {
  const TinyModel model;
  std::vector<Noted> noted;
  Plan fp32 = model.plan({3}, 4);
  const std::string in_fp32 = run_noting(model.load(fp32), noted, 1).parameters_sha256;
  EXPECT_EQ(noted[0].updates, 0);
  EXPECT_EQ(run_noting(model.load(bf16_plan(model, {3})), noted, 1).parameters_sha256, in_fp32);
  EXPECT_GT(noted[0].updates, 0);
}

// A backend hears of each step before its first launch, on every rank.
TEST(MixedPrecision, EveryStepIsAnnounced) {
  const TinyModel model;
  std::vector<Noted> noted;
  static_cast<void>(run_noting(model.load(bf16_plan(model, {3})), noted, 3));
  for (const Noted& rank : noted) EXPECT_EQ(rank.steps, (std::vector<std::uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace weir::mixed_precision_test

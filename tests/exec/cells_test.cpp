// Cells of convolutional networks: each operation's numbers by hand, gradients against central
// differences in double precision, running statistics against those of the whole mini-batch, and
// training with the same bits whatever the pipeline.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "costmodel/memory/memory.hpp"
#include "exec/cpu/convolution.hpp"
#include "exec/cpu/map_kernels.hpp"
#include "exec/rank/stage.hpp"
#include "exec/training/batches.hpp"
#include "plan/model/cell_layout.hpp"
#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/sample.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/cell_reference.hpp"
#include "tests/exec/tiny.hpp"

namespace weir {
namespace {

using reference::Matrix;

std::vector<float> ramp(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

class Convolved {
 public:
  explicit Convolved(const cpu::ConvolutionSize& size) : size_(size) {
    library_.prepare(size);
    scratch_.resize(static_cast<std::size_t>(library_.scratch_bytes()) + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
    library_.use_scratch(scratch_.data() + (64 - address % 64) % 64);
  }
  std::vector<float> forward(const std::vector<float>& x, const std::vector<float>& w) {
    std::vector<float> y(
        static_cast<std::size_t>(size_.batch * size_.out_height * size_.out_width * size_.out));
    library_.forward(size_, x.data(), w.data(), nullptr, y.data());
    return y;
  }
  std::vector<float> input_gradient(const std::vector<float>& w, const std::vector<float>& dy) {
    std::vector<float> dx(
        static_cast<std::size_t>(size_.batch * size_.in_height * size_.in_width * size_.in));
    library_.input_gradient(size_, w.data(), dy.data(), dx.data());
    return dx;
  }
  std::vector<float> weight_gradient(const std::vector<float>& x, const std::vector<float>& dy,
                                     std::vector<float> dw, cpu::Beta beta) {
    library_.weight_gradient(size_, x.data(), dy.data(), beta, dw.data());
    return dw;
  }

 private:
  cpu::ConvolutionSize size_;
  cpu::Convolutions library_;
  std::vector<std::byte> scratch_;
};

// x = 1 2 3    w = 1 2    y[0][0] = 1*1 + 2*2 + 4*3 + 5*4 = 37; the next column each number is one
//     4 5 6        3 4    more, and the weights' sum is 10: 47; the next row 3 more: 67, 77.
//     7 8 9
// dy = 1 0 / 0 2: dx is w at the first window and 2 w at the last, which share the middle: 4 + 2.
// dw = first window + 2 x last: 1 + 2*5, 2 + 2*6, 4 + 2*8, 5 + 2*9.
TEST(Convolution, ByHand) {
  Convolved of({.in = 1,
                .in_height = 3,
                .in_width = 3,
                .out = 1,
                .out_height = 2,
                .out_width = 2,
                .kernel_height = 2,
                .kernel_width = 2});
  const std::vector<float> x = ramp(9), w = ramp(4), dy{1, 0, 0, 2};
  EXPECT_EQ(of.forward(x, w), (std::vector<float>{37, 47, 67, 77}));
  EXPECT_EQ(of.input_gradient(w, dy), (std::vector<float>{1, 2, 0, 3, 6, 4, 0, 6, 8}));
  EXPECT_EQ(of.weight_gradient(x, dy, {9, 9, 9, 9}, cpu::Beta::zero),
            (std::vector<float>{11, 14, 20, 23}));
  EXPECT_EQ(of.weight_gradient(x, dy, {1, 1, 1, 1}, cpu::Beta::one),
            (std::vector<float>{12, 15, 21, 24}));
}

// A padding of one and a stride of two on a 4 x 4 map: windows of three begin at -1 and 1. With
// ones for weights an output is the sum of what of its window lies on the map: 1 + 2 + 5 + 6 = 14,
// 2 + 3 + 4 + 6 + 7 + 8 = 30, 5 + 6 + 9 + 10 + 13 + 14 = 57, and the 3 x 3 of 6 to 16 = 99.
TEST(Convolution, StrideAndPadding) {
  Convolved of({.in = 1,
                .in_height = 4,
                .in_width = 4,
                .out = 1,
                .out_height = 2,
                .out_width = 2,
                .kernel_height = 3,
                .kernel_width = 3,
                .stride = 2,
                .pad_y = 1,
                .pad_x = 1});
  EXPECT_EQ(of.forward(ramp(16), std::vector<float>(9, 1.0F)),
            (std::vector<float>{14, 30, 57, 99}));
}

// Two groups of 1 x 1: output channel g is input channel g times its own weight.
TEST(Convolution, Groups) {
  Convolved of({.groups = 2,
                .in = 2,
                .in_height = 1,
                .in_width = 2,
                .out = 2,
                .out_height = 1,
                .out_width = 2});
  EXPECT_EQ(of.forward({1, 2, 3, 4}, {10, 100}), (std::vector<float>{10, 200, 30, 400}));
}

// Two channels over three places: (1, 2, 3) has mean 2 and variance 2/3, (4, 4, 7) mean 5 and
// variance 2. With epsilon 0, gain 1 and shift 0 the first becomes -r, 0, r for r = sqrt(3/2).
TEST(BatchNorm, ByHand) {
  const std::vector<float> x{1, 4, 2, 4, 3, 7}, gain{1, 2}, shift{0, 1};
  std::vector<float> moments(4), y(6);
  cpu::channel_moments(x.data(), {3, 2}, moments.data());
  EXPECT_EQ(moments, (std::vector<float>{2, 5, 2.0F / 3, 2}));
  cpu::batch_norm(x.data(), {3, 2}, moments.data(), gain.data(), shift.data(), 0, y.data());
  const float r = std::sqrt(1.5F), s = std::sqrt(0.5F);
  const std::vector<float> expected{-r, 1 - 2 * s, 0, 1 - 2 * s, r, 1 + 4 * s};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
  // dy is 1 at the first place of channel 0: z = (-r, 0, r), mean(dy) = 1/3, mean(dy z) = -r/3, so
  // dx = r (1 - 1/3 - r r/3, -1/3, -1/3 + r r/3) = r (1/6, -1/3, 1/6); the gain's gradient is -r,
  // the shift's 1.
  const std::vector<float> dy{1, 0, 0, 0, 0, 0};
  std::vector<float> dx(6), gradients(4);
  cpu::batch_norm_gradient(x.data(), {3, 2}, moments.data(), gain.data(), 0, dy.data(), dx.data(),
                           gradients.data());
  const std::vector<float> slope{r / 6, 0, -r / 3, 0, r / 6, 0};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(dx[i], slope[i], 1e-6) << i;
  EXPECT_NEAR(gradients[0], -r, 1e-6);
  EXPECT_EQ(gradients[2], 1);
}

// Micro-batches (1, 3) and (5, 7) of one number a sample: means 2 and 6, variances 1. The whole has
// mean 4 and variance 5, unbiased 20/3; a tenth of the way from (10, 1) is (9.4, 0.9 + 2/3).
TEST(BatchNorm, RunningStatisticsAreThoseOfTheWholeMiniBatch) {
  std::vector<float> running{10, 1}, sums(2);
  const std::vector<float> first{2, 1}, second{6, 1};
  cpu::add_moments(first.data(), running.data(), 1, 0.5F, cpu::Beta::zero, sums.data());
  cpu::add_moments(second.data(), running.data(), 1, 0.5F, cpu::Beta::one, sums.data());
  const float* all[] = {sums.data()};
  cpu::move_statistics({.momentum = 0.1, .places = 1}, 4, all, 1, running.data());
  EXPECT_NEAR(running[0], 9.4, 1e-6);
  EXPECT_NEAR(running[1], 0.9 + 2.0 / 3, 1e-6);
}

TEST(Rectifier, KeepsSigns) {
  const std::vector<float> x{-1, 2, 0, 3, -4, 5, 6, -7, 8};
  std::vector<float> y(9), dx(9);
  std::vector<std::uint8_t> signs(2);
  cpu::rectify(x.data(), 9, y.data(), signs.data());
  EXPECT_EQ(y, (std::vector<float>{0, 2, 0, 3, 0, 5, 6, 0, 8}));
  EXPECT_EQ(signs, (std::vector<std::uint8_t>{0b01101010, 1}));
  cpu::rectify_gradient(signs.data(), ramp(9).data(), 9, dx.data());
  EXPECT_EQ(dx, (std::vector<float>{0, 2, 0, 4, 0, 6, 7, 0, 9}));
}

// Windows of two, a step of two and a padding of one on three columns: the first holds column 0
// alone, the second columns 1 and 2.
TEST(Pooling, ByHand) {
  const cpu::Pooling p{.input = {1, 1, 3},
                       .output = {1, 1, 2},
                       .kernel_y = 1,
                       .kernel_x = 2,
                       .stride = 2,
                       .pad_x = 1};
  const std::vector<float> x{5, 2, 4}, dy{10, 20};
  std::vector<float> y(2), dx(3);
  std::vector<std::uint8_t> places(2);
  cpu::max_pool(p, x.data(), y.data(), places.data());
  EXPECT_EQ(y, (std::vector<float>{5, 4}));
  EXPECT_EQ(places, (std::vector<std::uint8_t>{1, 1}));
  cpu::max_pool_gradient(p, places.data(), dy.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{10, 0, 20}));
  // Padding is not averaged: (5), (2 + 4) / 2.
  cpu::average_pool(p, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{5, 3}));
  cpu::average_pool_gradient(p, dy.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{10, 10, 10}));
}

TEST(Upsampling, ByHand) {
  const cpu::Pooling p{.input = {1, 1, 2}, .output = {1, 2, 4}, .stride = 2};
  std::vector<float> y(8), dx(2);
  cpu::upsample(p, ramp(2).data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2}));
  cpu::upsample_gradient(p, ramp(8).data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{1 + 2 + 5 + 6, 3 + 4 + 7 + 8}));
}

// conv > norm > relu > conv on a 4 x 4 map of 2 channels. Saved: the norm's input, until I; the
// second convolution's input, until W; the norm's moments and the rectifier's 32 signs. The norm's
// output lies in workspace. Backwards the gradients of both convolutions' outputs are kept for W:
// the first carried, the last the layer's own; two lie in workspace, one after the other.
TEST(CellLayout, OfAConvolutionANormAndARectifier) {
  cnn::CellBuilder builder({2, 4, 4});
  int value = builder.convolution("a", 0, {.count = 2}, cnn::square(3));
  value = builder.relu("r", builder.batch_norm("n", value));
  builder.convolution("b", value, {.count = 2}, cnn::square(1));
  const Layer layer{"cell", builder.take(), "cell"};
  const LayerTensors t = layer_tensors(layer, 0, Dtype::fp32);
  ASSERT_EQ(t.saved.size(), 4U);
  EXPECT_EQ(t.saved[0].name, "a.output");
  EXPECT_EQ(t.saved[0].bytes_per_sample, 32 * 4);
  EXPECT_EQ(t.saved[0].until, KeptUntil::I);
  EXPECT_EQ(t.saved[1].name, "r.output");
  EXPECT_EQ(t.saved[1].until, KeptUntil::W);
  EXPECT_EQ(t.saved[2].name, "n.statistics");
  EXPECT_EQ(t.saved[3].bytes_per_sample, 4);
  EXPECT_EQ(t.workspace_f_bytes_per_sample, 32 * 4);
  ASSERT_EQ(t.carried.size(), 2U);
  EXPECT_EQ(t.carried[0].name, "a.output.gradient");
  EXPECT_EQ(t.carried[1].name, "n.gradients");
  EXPECT_EQ(t.workspace_i_bytes_per_sample, 2 * 32 * 4);
  EXPECT_TRUE(t.saves_input);
  EXPECT_TRUE(t.w_needs_output_gradient);
  // 2 x 2 x 9 + 2 x 2 x 1 weights, a gain and a shift a channel; the running statistics are none.
  EXPECT_EQ(parameter_count(layer), 36 + 4 + 4);
  ASSERT_EQ(t.parameters.size(), 5U);
  EXPECT_TRUE(t.parameters[3].running.has_value());
}

// Every operation once or more, values with several readers among them.
CellShape every_operation(const FeatureMap& input) {
  cnn::CellBuilder cell(input);
  const int a = cell.convolution("a", 0, {.count = 6, .groups = 2, .bias = true}, cnn::square(3));
  const int b = cell.relu("r", cell.batch_norm("n", a));
  const int c = cell.max_pool("m", b, cnn::square(3, 2));
  const int d = cell.average_pool("v", b, cnn::square(3, 2));
  const int e = cell.convolution("e", cell.concat("k", {c, d}), {.count = 6}, cnn::square(1));
  const int f = cell.upsample("u", cell.add("s", {e, c}), 2);
  const int g = cell.add("t", {f, b});
  const int h = cell.convolution("h", 0, {.count = 6}, {.height = 1, .width = 7});
  const int z = cell.batch_norm("z", cell.add("w", {g, h}));
  const int row = cell.pack("p", {z, c});
  const int front = cell.slice("front", row, 10, {6, 4, 4});
  cell.add("sum", {front, cell.slice("back", row, 24, {6, 4, 4})});
  return cell.take();
}

// A device pins the thread that prepares it; here that is the test's own.
class KeepOwnCores {
 public:
  KeepOwnCores() { sched_getaffinity(0, sizeof(set_), &set_); }
  KeepOwnCores(const KeepOwnCores&) = delete;
  KeepOwnCores& operator=(const KeepOwnCores&) = delete;
  ~KeepOwnCores() { sched_setaffinity(0, sizeof(set_), &set_); }

 private:
  cpu_set_t set_{};
};

// Each layer of stem, cell, mean and classifier on 4 samples as a stage of its own, I and W apart
// and twice, against differences of L = sum(output * r) (the classifier's: its loss).
TEST(CellGradients, OfCellsInputsAndWeights) {
  const KeepOwnCores cores;
  constexpr double kStep = 1e-5;
  // fp32 sums of some hundred products through at most five operations, as
  // tests/exec/gradients_test has it; of a bias before a norm, which moves nothing, what is left is
  // rounding of terms near 1.
  constexpr double kTolerance = 2e-4;
  Model model;
  cnn::CellBuilder stem({3, 4, 4}, true);
  stem.convolution("conv", 0, {.count = 4}, cnn::square(3));
  cnn::CellBuilder mean({6, 4, 4});
  mean.global_pool("mean", 0);
  model.name = "cells";
  model.family = "cnn";
  model.layers = {
      {"stem", stem.take(), "stem"},
      {"cell", every_operation({4, 4, 4}), "cell"},
      {"mean", mean.take(), "pool"},
      {"fc", HeadShape{.vocabulary = 5, .hidden = 6, .bias = true, .pooled = true}, ""}};
  Plan plan;
  plan.pp = 4;
  plan.boundaries = {1, 2, 3};
  plan.microbatches = 1;
  plan.micro_batch_size = 4;
  const ResolvedPlan loaded =
      derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {4, 1, 1})));
  const auto words = static_cast<std::size_t>(sample_words(model, 0));
  ASSERT_EQ(words, 3U * 16 + 1);
  const Batches data({.vocabulary = 5, .image = {3, 4, 4}, .seed = 3, .samples = 4});
  std::vector<std::int32_t> samples(4 * words);
  for (std::uint32_t i = 0; i < 4; ++i) data.sample(0, i, &samples[i * words]);

  std::mt19937 random(6);
  std::normal_distribution<float> normal(0, 0.5F);
  for (int index = 0; index < 4; ++index) {
    const std::unique_ptr<Backend> backend = make_cpu_backend({});
    Arena arena(*backend);
    const Layer& layer = model.layers[static_cast<std::size_t>(index)];
    backend->prepare(std::span(&layer, 1), 4, 0);
    backend->use_scratch(arena.allocate(backend->scratch_bytes()));
    StageWorker worker(loaded, Stage{index}, seeded_state(loaded), *backend, arena);
    std::vector<Matrix> weights;
    for (Parameter& p : worker.parameters()) {
      float* values = p.weight.floats();
      const std::int64_t n = p.description.elements();
      for (std::int64_t i = 0; i < n && !p.description.running; ++i) values[i] += normal(random);
      weights.emplace_back(values, values + n);
    }
    const bool first = index == 0, head = index == 3;
    const auto sized = [&](int l) {
      return static_cast<std::size_t>(loaded.part->layer(l).tensors.output_bytes_per_sample);
    };
    Matrix x(first ? 0 : sized(index - 1)), r(head ? 1 : sized(index), 1.0);  // 4 samples, 4 bytes
    for (double& value : x) value = normal(random);
    if (!head) std::ranges::generate(r, [&] { return normal(random); });
    const auto filled = [&](const Matrix& values) {
      Tensor tensor = arena.allocate(static_cast<std::int64_t>(values.size()) * 4);
      std::ranges::copy(values, tensor.floats());
      return tensor;
    };
    double loss = 0;
    Matrix input_gradient;
    for (int repetition = 0; repetition < 2; ++repetition) {
      const Tensor output =
          worker.forward({0, 0, samples.data(), &loss}, first ? Tensor{} : filled(x),
                         StageWorker::Keep::everything);
      static_cast<void>(output);
      const Pass back{0, 0, samples.data(), nullptr};
      const Tensor dx = worker.backward_input(back, head ? Tensor{} : filled(r));
      input_gradient = Matrix(dx.floats(), dx.floats() + x.size());
      worker.backward_weight(back);
    }
    const reference::Images batch{4, samples.data(), static_cast<std::int64_t>(words)};
    const auto objective = [&] {
      const Matrix y = reference::cell_forward(layer, weights, x, batch);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * r[i];
      return sum;
    };
    if (head) {
      EXPECT_NEAR(loss, objective(), 1e-5);
    }
    const auto expect_close = [&](Matrix& at, const Matrix& got, const std::string& what) {
      double largest = 0;
      Matrix slopes;
      for (double& value : at) {
        const double before = value;
        value = before + kStep;
        const double up = objective();
        value = before - kStep;
        slopes.push_back((up - objective()) / (2 * kStep));
        value = before;
        largest = std::max(largest, std::abs(slopes.back()));
      }
      ASSERT_EQ(slopes.size(), got.size()) << what;
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(slopes[i], got[i], kTolerance * std::max(largest, 0.1)) << what << i;
    };
    if (!first) expect_close(x, input_gradient, layer.name + " input ");
    for (std::size_t p = 0; p < weights.size(); ++p) {
      const Parameter& parameter = worker.parameters()[p];
      if (parameter.description.running) continue;
      Matrix got(parameter.gradient.floats(), parameter.gradient.floats() + weights[p].size());
      for (double& value : got) value /= 2;
      expect_close(weights[p], got, layer.name + " " + parameter.description.name + " ");
    }
  }
}

// Two groups of blocks of 4 and 8 channels on 8 x 8 images: stem, two blocks, a third at half the
// size, the mean and the classifier.
TinyConfig tiny_resnet(bool bottleneck = false) {
  return {R"({"schema":"weir.cnn/1","network":"resnet","layers":"blocks","blocks":[2,1],)"
          R"("width":4,"image":8,"classes":5,"stem":"3x3","bottleneck":)" +
              std::string(bottleneck ? "true" : "false") + "}",
          0};
}

std::string hash_of(const TinyModel& model, const Plan& plan, int steps = 2) {
  RunOptions options;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(model.load(plan), options, cpu_only()).parameters_sha256;
}

Recompute mode(const std::string& words) {
  if (words == "never") return {};
  Recompute r = parse_recompute_word(words.substr(0, words.find(' '))).value();
  r.except_last = words.ends_with("except-last");
  return r;
}
constexpr const char* kModes[] = {"never", "stage", "stage except-last", "full", "0,2,4"};

// The running statistics are hashed with the weights: nothing is counted twice when a layer is
// rebuilt, and every order of micro-batches sums alike.
TEST(TrainingCells, ParametersAreBitwiseEqualForEveryPipeline) {
  const TinyModel model(tiny_resnet());
  const std::string expected = hash_of(model, model.plan({}, 4, "gpipe"));
  for (const std::vector<int>& boundaries :
       std::vector<std::vector<int>>{{}, {1}, {3}, {2, 4}, {1, 2, 5}}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      for (const char* words : kModes) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute = mode(words);
        EXPECT_EQ(hash_of(model, plan), expected)
            << "K" << plan.pp << " " << schedule << " " << words;
      }
    }
  }
}

TEST(TrainingCells, EverySchedulesParametersAreBitwiseEqual) {
  const TinyModel model(tiny_resnet(true));
  const std::string expected = hash_of(model, model.plan({}, 6, "gpipe"));
  const struct {
    const char* schedule;
    int vpp;
    std::vector<int> boundaries;
  } cases[] = {{"1f1b-eager", 1, {2, 4}},    {"zb-h1", 1, {2, 4}},
               {"zb-h2", 1, {1, 3}},         {"interleaved-1f1b", 2, {1, 3, 4}},
               {"looped-bfs", 2, {1, 2, 4}}, {"zb-v", 2, {1, 3, 4}},
               {"v-min", 2, {2, 3, 4}},      {"dualpipev", 2, {1, 3, 4}},
               {"zb-v", 2, {1, 2, 3, 4, 5}}};
  for (const auto& c : cases) {
    for (const char* words : {"never", "stage", "full"}) {
      Plan plan = model.plan(c.boundaries, 6, c.schedule);
      plan.pp = static_cast<int>(c.boundaries.size() + 1) / c.vpp;
      plan.vpp = c.vpp;
      plan.slots = 0;
      plan.recompute = mode(words);
      EXPECT_EQ(hash_of(model, plan), expected) << c.schedule << " " << words;
    }
  }
}

// Micro-batches of 3, 2 and 2 samples count by their size, and the statistics are no gradients: a
// norm of next to nothing clips what is learned and leaves them alone.
TEST(TrainingCells, UnequalMicroBatchesAndClippingAreBitwiseEqualToo) {
  const TinyModel model(tiny_resnet());
  const auto planned = [&](std::vector<int> boundaries, const char* schedule) {
    Plan plan = model.plan(std::move(boundaries), 3, schedule);
    plan.micro_batch_size = 3;
    plan.samples = 7;
    plan.optimizer.clip_norm = 1e-3;
    return plan;
  };
  const std::string expected = hash_of(model, planned({}, "gpipe"));
  EXPECT_EQ(hash_of(model, planned({2, 4}, "1f1b")), expected);
  EXPECT_EQ(hash_of(model, planned({3}, "zb-h1")), expected);
}

// Two steps, and two more on other stages, are four.
TEST(TrainingCells, ResumeWithAnotherPartition) {
  const TinyModel model(tiny_resnet());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weir-cells-run-" + std::to_string(::getpid()));
  RunOptions options;
  options.steps = 2;
  options.warmup_steps = 0;
  options.output = folder;
  options.checkpoint_every = 2;
  static_cast<void>(run(model.load(model.plan({3}, 4)), options, cpu_only()));
  options.checkpoint_every = 0;
  options.resume = folder;
  const RunResult resumed = run(model.load(model.plan({1, 4}, 4, "gpipe")), options, cpu_only());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(resumed.parameters_sha256, hash_of(model, model.plan({}, 4), 4));
}

// The stem's norm sees each sample by itself, so its mini-batch is the same however it is cut: with
// weights that do not move (a learning rate of next to nothing), M = 4 and M = 1 leave the same
// running statistics, up to the rounding of sums of 4 x 128 numbers of order 1.
TEST(TrainingCells, RunningStatisticsDoNotDependOnMicroBatches) {
  const TinyModel model(tiny_resnet());
  const auto stem_statistics = [&](int microbatches) {
    Plan plan = model.plan({}, microbatches);
    plan.micro_batch_size = 8 / microbatches;
    plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e-30, .momentum = 0};
    const ResolvedPlan loaded = model.load(plan);
    std::filesystem::path file = std::filesystem::temp_directory_path() /
                                 ("weir-cells-" + std::to_string(::getpid()) + ".safetensors");
    RunOptions options;
    options.steps = 2;
    options.warmup_steps = 0;
    options.save = file;
    static_cast<void>(run(loaded, options, cpu_only()));
    const std::string text = read_bytes(file);
    std::filesystem::remove(file);
    // The header says where the tensor's bytes lie.
    std::uint64_t header = 0;
    std::memcpy(&header, text.data(), 8);
    const Json json = parse_json(text.substr(8, header), "header");
    std::vector<float> values;
    for (const char* name : {"bn1.running_mean", "bn1.running_var"}) {
      const auto offsets = json.at(name).at("data_offsets").get<std::vector<std::size_t>>();
      std::vector<float> part((offsets[1] - offsets[0]) / 4);
      std::memcpy(part.data(), text.data() + 8 + header + offsets[0], part.size() * 4);
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  };
  const std::vector<float> whole = stem_statistics(1), cut = stem_statistics(4);
  ASSERT_EQ(whole.size(), 8U);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i], cut[i], 1e-6) << i;
    EXPECT_NE(whole[i], i < 4 ? 0.0F : 1.0F);  // they have moved
  }
}

TEST(TrainingCells, PredictedPeakIsTheArenas) {
  const TinyModel model(tiny_resnet());
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {3}, {2, 4}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const char* words : kModes) {
        Plan plan = model.plan(boundaries, 6, schedule);
        plan.recompute = mode(words);
        const ResolvedPlan loaded = model.load(plan);
        const RunResult result = run(loaded, {}, cpu_only());
        const Program& program = loaded.program;
        const std::span<const Span> spans(result.trace.spans.data(), program.size());
        const auto peaks = memory_peaks(loaded, program, spans, result.scratch);
        for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
          const auto measured = static_cast<double>(result.peak_memory[rank].count());
          const auto predicted = static_cast<double>(peaks[rank].peak.count());
          // Messages are large beside so small a model: one slot more or less is timing.
          const double message = 2 * 4 * 64 * 4;
          EXPECT_NEAR(predicted, measured, 0.01 * measured + message)
              << "K" << plan.pp << " " << schedule << " " << words << " rank " << rank;
        }
      }
    }
  }
}

// Synthetic classes are patterns under noise: from ln 5 = 1.61 to next to nothing; the running
// statistics serve an evaluation.
TEST(TrainingCells, LearnsPatterns) {
  const TinyModel model(tiny_resnet());
  Plan plan = model.plan({2}, 2);
  plan.micro_batch_size = 16;
  plan.optimizer.learning_rate = 2e-2;
  RunOptions options;
  options.steps = 100;
  options.warmup_steps = 0;
  const RunResult result = run(model.load(plan), options, cpu_only());
  EXPECT_GT(result.steps.front().loss, 1.2);
  EXPECT_LT(result.steps.back().loss, 0.3);
}

// Two levels of two convolutions on 8 x 8 images, three classes at each place: two skips, of which
// the outer one crosses four layers. Layers: two encoders, the bottleneck, two decoders, the head.
TinyConfig tiny_unet() {
  return {R"({"schema":"weir.cnn/1","network":"unet","layers":"blocks","depth":2,"convolutions":2,)"
          R"("channels":4,"image":8,"output_channels":3})",
          0};
}

TEST(TrainingUNet, SkipsAcrossStagesAreBitwiseThoseOfOneDevice) {
  const TinyModel model(tiny_unet());
  const std::string expected = hash_of(model, model.plan({}, 4, "gpipe"));
  for (const std::vector<int>& boundaries :
       std::vector<std::vector<int>>{{1}, {3}, {2, 4}, {1, 3, 4}, {1, 2, 3, 4, 5}}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const char* words : kModes) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute = mode(words);
        EXPECT_EQ(hash_of(model, plan), expected)
            << "K" << plan.pp << " " << schedule << " " << words;
      }
    }
  }
}

// A class is a colour under noise: from ln 3 = 1.10 down.
TEST(TrainingUNet, LearnsColours) {
  const TinyModel model(tiny_unet());
  Plan plan = model.plan({3}, 2);
  plan.micro_batch_size = 4;
  plan.optimizer.learning_rate = 1e-2;
  RunOptions options;
  options.steps = 60;
  options.warmup_steps = 0;
  const RunResult result = run(model.load(plan), options, cpu_only());
  EXPECT_LT(result.steps.back().loss, 0.7 * result.steps.front().loss);
}

// A boundary carries the map and what is stashed for the way up.
TEST(CellLayout, UNetHandsItsStashedMapsOn) {
  const TinyModel model(tiny_unet());
  const ResolvedPlan loaded = model.load(model.plan({}, 1));
  // [x1 | s0]: 4 channels of 4 x 4 and of 8 x 8; [x2 | s1 s0]: 8 of 2 x 2, 8 of 4 x 4, s0; the
  // bottleneck's 8 of 2 x 2 with both; a decoder's 4 of 4 x 4 with s0; the last one's 2 of 8 x 8.
  const std::int64_t s0 = 4 * 64, s1 = 8 * 16;
  const std::int64_t numbers[] = {4 * 16 + s0, 8 * 4 + s1 + s0, 8 * 4 + s1 + s0, 4 * 16 + s0,
                                  2 * 64};
  for (int l = 0; l < 5; ++l)
    EXPECT_EQ(loaded.part->layer(l).tensors.output_bytes_per_sample, numbers[l] * 4) << l;
}

// Records as CIFAR-10's binary version has them: here of 3 classes, two channels of 1 x 2.
TEST(Batches, ImagesOfRecords) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("weir-images-" + std::to_string(::getpid()));
  const auto write = [&](std::vector<unsigned char> bytes) {
    write_file_atomically(file, std::string(bytes.begin(), bytes.end()));
  };
  write({2, 0, 255, 51, 102, 0, 1, 2, 3, 4});
  const BatchRequest request{
      .files = {file}, .vocabulary = 3, .image = {2, 1, 2}, .samples = 2, .shuffled = false};
  const Batches batches(request);
  EXPECT_EQ(batches.windows(), 2);
  std::vector<std::int32_t> words(5);
  batches.sample(0, 0, words.data());
  // Channels innermost: 0 and 51 at the first place, 255 and 102 at the second; the label 2.
  const float expected[] = {-1, 51 / 127.5F - 1, 1, 102 / 127.5F - 1, 2};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::bit_cast<float>(words[i]), expected[i]) << i;
  write({3, 0, 255, 51, 102});
  EXPECT_THROW(Batches{request}, InputError);  // a label above the classes
  write({0, 0, 255, 51});
  EXPECT_THROW(Batches{request}, InputError);  // not a whole record
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace weir

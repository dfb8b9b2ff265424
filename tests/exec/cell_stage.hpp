// One layer of a convolutional network as a stage of its own with random weights: its passes in
// fp32 on a backend, and beside them the same in double precision; a cell of every operation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exec/rank/stage.hpp"
#include "exec/training/batches.hpp"
#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/sample.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "tests/exec/cell_reference.hpp"

namespace weir {

// A model of which every layer is a stage, on one micro-batch of synthetic images.
struct CellModel {
  CellModel(Model layers, int batch, int classes) {
    Plan plan;
    plan.pp = static_cast<int>(layers.layers.size());
    for (int boundary = 1; boundary < plan.pp; ++boundary) plan.boundaries.push_back(boundary);
    plan.microbatches = 1;
    plan.micro_batch_size = batch;
    const auto schedule = make_schedule("gpipe", {plan.pp, 1, 1});
    loaded = derive(plan, std::move(layers), std::get<Schedule>(schedule));
    const FeatureMap image = *images_of(loaded.model);
    words = sample_words(loaded.model, 0);
    samples.resize(static_cast<std::size_t>(batch * words));
    const Batches data({.vocabulary = classes, .image = image, .seed = 3, .samples = batch});
    for (int i = 0; i < batch; ++i)
      data.sample(0, static_cast<std::uint32_t>(i), &samples[static_cast<std::size_t>(i * words)]);
  }
  ResolvedPlan loaded;
  std::int64_t words = 0;  // of a sample
  std::vector<std::int32_t> samples;
};

class CellStage {
 public:
  using Matrix = reference::Matrix;

  CellStage(const CellModel& of, int index, std::mt19937& random, std::unique_ptr<Backend> backend)
      : of_(of),
        layer_(of.loaded.model.layers[static_cast<std::size_t>(index)]),
        backend_(std::move(backend)),
        arena_(*backend_) {
    const int batch = of.loaded.plan.micro_batch_size;
    backend_->prepare(std::span(&layer_, 1), batch, 0);
    backend_->use_scratch(arena_.allocate(backend_->scratch_bytes()));
    worker_ = std::make_unique<StageWorker>(of.loaded, Stage{index}, seeded_state(of.loaded),
                                            *backend_, arena_);
    std::normal_distribution<float> normal(0, 0.5F);
    for (Parameter& p : worker_->parameters()) {
      std::vector<float> values =
          read(p.weight, static_cast<std::size_t>(p.description.elements()));
      if (!p.description.running) {
        for (float& value : values) value += normal(random);
      }
      write(values, p.weight);
      weights_.emplace_back(values.begin(), values.end());
    }
    const auto numbers_after = [&](int l) {
      const std::int64_t bytes = of.loaded.part->layer(l).tensors.output_bytes_per_sample;
      return static_cast<std::size_t>(batch * bytes / 4);
    };
    const auto drawn = [&] { return normal(random); };
    if (index > 0) {
      input_.resize(numbers_after(index - 1));
      std::ranges::generate(input_, drawn);
    }
    weighting_.assign(1, 1.0);
    if (is_head()) return;
    weighting_.resize(numbers_after(index));
    std::ranges::generate(weighting_, drawn);
  }

  [[nodiscard]] bool is_head() const { return std::holds_alternative<HeadShape>(layer_.shape); }

  // F, I and W, twice over: the weights' gradients add up. Returns the loss, of a head.
  double run_twice() {
    const std::int32_t* samples = of_.samples.data();
    double loss = 0;
    for (int repetition = 0; repetition < 2; ++repetition) {
      output_ =
          worker_->forward({0, 0, samples, &loss}, filled(input_), StageWorker::Keep::everything);
      const Pass back{0, 0, samples, nullptr};
      const Tensor dx = worker_->backward_input(back, is_head() ? Tensor{} : filled(weighting_));
      input_gradient_ = doubles(dx, input_.size());
      worker_->backward_weight(back);
    }
    backend_->finish();  // the loss is there
    return loss;
  }

  // What F made, as the backend did and in double precision; of a head nothing and its mean loss.
  [[nodiscard]] Matrix output() const {
    return is_head() ? Matrix{} : doubles(output_, weighting_.size());
  }
  [[nodiscard]] Matrix expected_output() const {
    const reference::Images images{of_.loaded.plan.micro_batch_size, of_.samples.data(), of_.words};
    return reference::cell_forward(layer_, weights_, input_, images);
  }
  // L = sum(output * weighting), of a head its mean loss, in double precision.
  [[nodiscard]] double objective() const {
    const Matrix y = expected_output();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weighting_[i];
    return sum;
  }

  // What L is a function of, with the gradient that the passes gave: the input, unless it is
  // images, and each learned weight.
  struct Operand {
    std::string name;
    Matrix* at;
    Matrix gradient;
  };
  [[nodiscard]] std::vector<Operand> operands() {
    std::vector<Operand> all;
    if (!input_.empty()) all.push_back({layer_.name + " input", &input_, input_gradient_});
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      const Parameter& parameter = worker_->parameters()[p];
      if (parameter.description.running) continue;
      Matrix gradient = doubles(parameter.gradient, weights_[p].size());
      for (double& value : gradient) value /= 2;
      all.push_back({layer_.name + " " + parameter.description.name, &weights_[p], gradient});
    }
    return all;
  }

 private:
  [[nodiscard]] Tensor filled(const Matrix& values) {
    if (values.empty()) return {};
    const Tensor tensor = arena_.allocate(bytes_of(values.size()));
    write({values.begin(), values.end()}, tensor);
    return tensor;
  }
  static std::int64_t bytes_of(std::size_t floats) {
    return static_cast<std::int64_t>(floats * sizeof(float));
  }
  [[nodiscard]] std::vector<float> read(const Tensor& tensor, std::size_t count) const {
    std::vector<float> values(count);
    backend_->to_host(values.data(), tensor, bytes_of(count));
    return values;
  }
  [[nodiscard]] Matrix doubles(const Tensor& tensor, std::size_t count) const {
    const std::vector<float> values = read(tensor, count);
    return {values.begin(), values.end()};
  }
  void write(const std::vector<float>& values, const Tensor& tensor) {
    backend_->to_device(tensor, values.data(), bytes_of(values.size()));
  }

  const CellModel& of_;
  Layer layer_;
  std::unique_ptr<Backend> backend_;
  Arena arena_;
  std::unique_ptr<StageWorker> worker_;
  Tensor output_;
  Matrix input_, input_gradient_, weighting_;
  std::vector<Matrix> weights_;
};

// Every operation once or more, values with several readers among them.
inline CellShape every_operation(const FeatureMap& input) {
  cnn::CellBuilder cell(input);
  const int a = cell.convolution("a", 0, {.count = 6, .groups = 2, .bias = true}, cnn::square(3));
  const int b = cell.relu("r", cell.batch_norm("n", a));
  const int c = cell.max_pool("m", b, cnn::square(3, 2));
  const int d = cell.average_pool("v", b, cnn::square(3, 2));
  const int e = cell.convolution("e", cell.concat("k", {c, d}), {.count = 6}, cnn::square(1));
  const int f = cell.upsample("u", cell.add("s", {e, c}), 2);
  const int g = cell.add("t", {f, b, f});
  const int h = cell.convolution("h", 0, {.count = 6}, {.height = 1, .width = 7});
  const int z = cell.batch_norm("z", cell.add("w", {g, h}));
  const int row = cell.pack("p", {z, c});
  const int front = cell.slice("front", row, 10, {6, 4, 4});
  cell.add("sum", {front, cell.slice("back", row, 24, {6, 4, 4})});
  return cell.take();
}

// How L changes along a direction of signs is the sum of the gradient's numbers by these signs,
// which is of the size of the gradient's norm.
inline double slope_along(const CellStage& stage, reference::Matrix& at,
                          const reference::Matrix& direction) {
  constexpr double kStep = 1e-6;
  const reference::Matrix before = at;
  const auto objective_at = [&](double step) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = before[i] + step * direction[i];
    return stage.objective();
  };
  const double up = objective_at(kStep), down = objective_at(-kStep);
  at = before;
  return (up - down) / (2 * kStep);
}

}  // namespace weir

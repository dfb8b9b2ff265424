// Gradients of the CPU kernels against central differences of the double-precision reference.
//
// The difference quotient (L(w + e) - L(w - e)) / 2e with e = 1e-5 has an error of about e^2 L''' /
// 6 + 1e-16 L / e < 1e-9 here, so what remains is fp32 in the kernels: sums of some hundred
// products of order 1 carry an error of about sqrt(100) * 6e-8, and a chain of ten such steps 1e-5;
// 2e-4 of the largest gradient leaves room for cancellation.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "exec/rank/stage.hpp"
#include "exec/training/batches.hpp"
#include "plan/model/sample.hpp"
#include "tests/exec/cpu/reference.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::gradients_test {
namespace {

using reference::Batch;
using reference::Matrix;

constexpr double kTolerance = 2e-4;
constexpr double kStep = 1e-5;

Matrix doubles(const Tensor& tensor, std::int64_t elements) {
  return {tensor.floats(), tensor.floats() + elements};
}

void expect_close(const Matrix& expected, const Matrix& got, const std::string& what) {
  ASSERT_EQ(expected.size(), got.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], got[i], kTolerance * largest) << what << "[" << i << "]";
  }
}

template <class Loss>
Matrix differences(Matrix& at, Loss loss) {
  Matrix gradient(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double before = at[i];
    at[i] = before + kStep;
    const double up = loss();
    at[i] = before - kStep;
    const double down = loss();
    at[i] = before;
    gradient[i] = (up - down) / (2 * kStep);
  }
  return gradient;
}

// A device pins the thread that prepares it; here that is the test's own, which gets its cores
// back.
class KeepCores {
 public:
  KeepCores() { sched_getaffinity(0, sizeof(set_), &set_); }
  KeepCores(const KeepCores&) = delete;
  KeepCores& operator=(const KeepCores&) = delete;
  ~KeepCores() { sched_setaffinity(0, sizeof(set_), &set_); }

 private:
  cpu_set_t set_{};
};

// A stage on a CPU device with random parameters (not the initial ones, whose biases are zero and
// gains one).
class StageOnCpu {
 public:
  StageOnCpu(const ResolvedPlan& loaded, Stage stage)
      : backend_(make_cpu_backend({})), arena_(*backend_), range_(loaded.stage(stage).layers) {
    const std::span layers(loaded.model.layers.data() + range_.first,
                           static_cast<std::size_t>(range_.last - range_.first));
    backend_->prepare(layers, loaded.plan.micro_batch_size, loaded.plan.seq_length);
    Tensor scratch = arena_.allocate(backend_->scratch_bytes());
    backend_->use_scratch(scratch);
    worker_ = std::make_unique<StageWorker>(loaded, stage, seeded_state(loaded), *backend_, arena_);
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.3F);
    for (Parameter& parameter : worker_->parameters()) {
      const bool gain = parameter.description.init == ParameterTensor::Init::ones;
      std::generate_n(parameter.weight.floats(), parameter.description.elements(),
                      [&] { return (gain ? 1.0F : 0.0F) + normal(random); });
    }
  }
  [[nodiscard]] std::vector<std::vector<Matrix>> weights() {  // by layer
    std::vector<std::vector<Matrix>> all(static_cast<std::size_t>(range_.last - range_.first));
    for (const Parameter& p : worker_->parameters()) {
      all[static_cast<std::size_t>(p.id.layer - range_.first)].push_back(
          doubles(p.weight, p.description.elements()));
    }
    return all;
  }
  Tensor filled(const Matrix& values) {
    Tensor tensor = arena_.allocate(static_cast<std::int64_t>(values.size()) * 4);
    std::copy(values.begin(), values.end(), tensor.floats());
    return tensor;
  }
  StageWorker& worker() { return *worker_; }

 private:
  KeepCores cores_;
  std::unique_ptr<Backend> backend_;
  Arena arena_;
  LayerRange range_;
  std::unique_ptr<StageWorker> worker_;
};

// One block each; of Llama's family every way to scale positions, and biases, norms of heads and a
// tied head where a family has them.
struct Family {
  std::string name;
  TinyConfig config;
};
std::vector<Family> families() {
  const auto of = [](const std::string& family, const std::string& more) {
    return tiny_llama(family, more, 1, 12);
  };
  return {
      {"gpt2",
       {R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":1,"vocab_size":12,)"
        R"("n_positions":8,"tie_word_embeddings":false,"embd_pdrop":0,"attn_pdrop":0,)"
        R"("resid_pdrop":0})"}},
      {"llama", of("llama", kLlama3Scaling)},
      {"llama with biases",
       of("llama", R"(,"attention_bias":true,"mlp_bias":true,"hidden_act":"gelu_new",)"
                   R"("rope_scaling":{"rope_type":"linear","factor":4.0})")},
      {"mistral", of("mistral", "")},
      {"qwen2", of("qwen2", R"(,"rope_theta":1000000.0)")},
      {"bert", tiny_bert(0, "", 1, 12)},
      {"bert with a head of its own", tiny_bert(0, R"(,"tie_word_embeddings":false)", 1, 12)},
      {"vit", tiny_vit(0, 1)},
      {"qwen3", of("qwen3", R"(,"rope_parameters":{"rope_theta":100.0,"rope_type":"default"})")}};
}

struct Setting {
  TinyModel model;
  ResolvedPlan loaded;
  std::vector<std::int32_t> tokens;
  Batch batch;
  std::optional<std::int64_t> labels;
  Setting(const TinyConfig& config, std::vector<int> boundaries, AttentionKind attention)
      : model(config), loaded(load(std::move(boundaries), attention)) {
    const std::int64_t s = config.tokens;
    const auto words = static_cast<std::size_t>(sample_words(loaded.model, s));
    const bool masked = sample_kind(loaded.model) == SampleKind::masked_tokens;
    const FeatureMap* image = images_of(loaded.model);
    tokens.resize(2 * words);
    const Batches data({.vocabulary = image == nullptr ? 12 : 5,
                        .seq_length = s,
                        .image = image == nullptr ? FeatureMap{} : *image,
                        .masked = masked,
                        .seed = 9,
                        .samples = 2});
    for (std::uint32_t sample = 0; sample < 2; ++sample)
      data.sample(0, sample, &tokens[sample * words]);
    if (masked) tokens[words + 8 + 3] = tokens[words + 8 + 6] = 1;  // two places of another type
    labels = data.labels(0);
    batch = {2, static_cast<std::size_t>(s), tokens.data(), words, masked};
  }
  [[nodiscard]] Pass pass(double* loss = nullptr) const {
    Pass made{0, 0, tokens.data(), loss};
    made.labels = labels;
    return made;
  }
  [[nodiscard]] ResolvedPlan load(std::vector<int> boundaries, AttentionKind attention) const {
    Plan plan = model.plan(std::move(boundaries), 1);
    plan.attention = attention;
    return model.load(plan);
  }
};

class Gradients : public testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(, Gradients, testing::ValuesIn(families()), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

// Each layer as a stage of its own: L = sum(output * r) for a random r (a head: its loss). I and W
// run apart, twice, so that accumulation over micro-batches is seen as well: W's gradients must
// then be doubled.
TEST_P(Gradients, OfEachLayersInputAndWeights) {
  const auto layers = [](const TinyConfig& config) {
    return static_cast<int>(Setting(config, {}, AttentionKind::unfused).loaded.model.layers.size());
  };
  const int last = layers(GetParam().config) - 1;
  std::vector<int> boundaries(static_cast<std::size_t>(last));
  std::iota(boundaries.begin(), boundaries.end(), 1);
  Setting setting(GetParam().config, boundaries, AttentionKind::unfused);
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  for (int index = 0; index <= last; ++index) {
    StageOnCpu stage(setting.loaded, Stage{index});
    const Layer& layer = setting.loaded.model.layers[static_cast<std::size_t>(index)];
    const std::string name = kind_name(layer);
    const bool first = index == 0, head = index == last;
    const std::size_t numbers = 2 * setting.batch.tokens * 16;
    Matrix x(first ? 0 : numbers), r(head ? 1 : numbers, 1.0);
    for (double& value : x) value = static_cast<float>(normal(random));
    if (!head) {
      for (double& value : r) value = static_cast<float>(normal(random));
    }
    double loss = 0;
    Matrix input_gradient;
    for (int repetition = 0; repetition < 2; ++repetition) {
      const Tensor output = stage.worker().forward(
          setting.pass(&loss), first ? Tensor{} : stage.filled(x), StageWorker::Keep::everything);
      static_cast<void>(output);
      const Tensor gradient =
          stage.worker().backward_input(setting.pass(), head ? Tensor{} : stage.filled(r));
      if (!first) input_gradient = doubles(gradient, static_cast<std::int64_t>(x.size()));
      stage.worker().backward_weight(setting.pass());
    }
    auto weights = stage.weights()[0];
    const auto objective = [&] {
      const Matrix y = reference::forward(layer, weights, x, setting.batch);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * r[i];
      return sum;
    };
    if (head) {
      EXPECT_NEAR(loss, objective(), 1e-5);
    }
    if (!first) expect_close(differences(x, objective), input_gradient, name + " input");
    for (std::size_t p = 0; p < weights.size(); ++p) {
      const Parameter& parameter = stage.worker().parameters()[p];
      Matrix got = doubles(parameter.gradient, parameter.description.elements());
      for (double& value : got) value /= 2;
      expect_close(differences(weights[p], objective), got,
                   name + " " + parameter.description.name);
    }
  }
}

// The whole model: loss and every gradient of embedding, block, norm and head together.
void expect_whole_model(const TinyConfig& config, AttentionKind attention) {
  Setting setting(config, {}, attention);
  StageOnCpu stage(setting.loaded, Stage{0});
  double loss = 0;
  static_cast<void>(stage.worker().forward(setting.pass(&loss), {}, StageWorker::Keep::everything));
  static_cast<void>(stage.worker().backward(setting.pass(), {}));
  auto weights = stage.weights();
  const auto objective = [&] {
    Matrix x;
    for (std::size_t l = 0; l < weights.size(); ++l) {
      x = reference::forward(setting.loaded.model.layers[l], weights[l], x, setting.batch);
    }
    return x[0];
  };
  EXPECT_NEAR(loss, objective(), 1e-5);
  for (const Parameter& parameter : stage.worker().parameters()) {
    Matrix& at = weights[static_cast<std::size_t>(parameter.id.layer)]
                        [static_cast<std::size_t>(parameter.id.tensor)];
    expect_close(differences(at, objective),
                 doubles(parameter.gradient, parameter.description.elements()),
                 "layer " + std::to_string(parameter.id.layer) + " " + parameter.description.name);
  }
}

TEST_P(Gradients, OfTheWholeModel) {
  expect_whole_model(GetParam().config, AttentionKind::unfused);
}

TEST_P(Gradients, OfTheWholeModelWithFusedAttention) {
  expect_whole_model(GetParam().config, AttentionKind::fused);
}

}  // namespace
}  // namespace weir::gradients_test

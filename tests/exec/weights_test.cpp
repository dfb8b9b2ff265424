// Weights out of a run and into another, gradients and logits of a step, and the loss on a file.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/training/batches.hpp"
#include "exec/weights/safetensors.hpp"
#include "exec/weights/weight_names.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::weights_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunOptions steps(int count) {
  RunOptions options;
  options.steps = count;
  options.warmup_steps = 0;
  return options;
}

class Weights : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name) const {
    return std::filesystem::temp_directory_path() /
           ("weir-exec-test-" + std::to_string(::getpid())) / name;
  }
  [[nodiscard]] std::vector<float> numbers(const std::string& name, const std::string& tensor) {
    const SafetensorsFile opened(file(name));
    return to_floats(opened.tensors().at(tensor), tensor);
  }
  TinyModel model_;
};

// Saved by one pipeline and begun with by another, the weights are the same bits.
TEST_F(Weights, AreThoseThatWereSaved) {
  RunOptions options = steps(2);
  options.save = file("saved.safetensors");
  const RunResult saved = run(model_.load(model_.plan({2}, 4)), options, cpu_only());
  const SafetensorsFile opened(*options.save);
  EXPECT_EQ(opened.tensors().size(), 2U + 3 * 12 + 2) << "the tied head is no tensor of its own";
  EXPECT_THAT(opened.tensors().at("transformer.h.1.mlp.c_fc.weight").shape, ElementsAre(16, 64));

  RunOptions begun = steps(0);
  begun.init = options.save;
  const RunResult read = run(model_.load(model_.plan({1, 4}, 4, "gpipe")), begun, cpu_only());
  EXPECT_EQ(read.parameters_sha256, saved.parameters_sha256);
}

TEST_F(Weights, OfAnotherModelAreRefused) {
  RunOptions options = steps(0);
  options.save = file("saved.safetensors");
  static_cast<void>(run(model_.load(model_.plan({}, 1)), options, cpu_only()));
  const auto complaint = [&](const TinyModel& other) -> std::string {
    RunOptions begun = steps(0);
    begun.init = file("saved.safetensors");
    try {
      static_cast<void>(run(other.load(other.plan({}, 1)), begun, cpu_only()));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto keep = read_bytes(*options.save);
  const auto of = [&](const TinyModel& other) {
    write_file_atomically(*options.save, keep);
    return complaint(other);
  };
  EXPECT_THAT(of(TinyModel(true, 0.1, 48)), HasSubstr("shape [32, 16], the model's is [48, 16]"));
  EXPECT_THAT(of(TinyModel(true, 0.1, 32, 4)), HasSubstr("h.3.ln_1.weight: is not there"));
  EXPECT_THAT(of(TinyModel(true, 0.1, 32, 2)), HasSubstr("is no weight of"));
}

// A step of plain gradient descent moves every weight by its gradient: w' = w - rate * g.
TEST_F(Weights, DumpedGradientsAreThoseOfTheStep) {
  Plan plan = model_.plan({2}, 4);
  plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.5};
  RunOptions before = steps(0);
  before.save = file("before.safetensors");
  static_cast<void>(run(model_.load(plan), before, cpu_only()));
  RunOptions options = steps(1);
  options.save = file("after.safetensors");
  options.dump = file("dump.safetensors");
  static_cast<void>(run(model_.load(plan), options, cpu_only()));
  for (const char* name : {"transformer.wte.weight", "transformer.wpe.weight",
                           "transformer.h.2.attn.c_attn.weight", "transformer.ln_f.bias"}) {
    const auto w = numbers("before.safetensors", name), moved = numbers("after.safetensors", name);
    const auto g = numbers("dump.safetensors", name);
    double most = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      EXPECT_NEAR(moved[i], w[i] - 0.5F * g[i], 1e-7) << name;
      most = std::max(most, std::abs(static_cast<double>(g[i])));
    }
    EXPECT_GT(most, 1e-5) << name;
  }
}

// The loss from the logits, -log softmax of the targets, is the step's; whatever the pipeline, the
// numbers dumped are the same.
TEST_F(Weights, DumpedLogitsGiveTheLoss) {
  RunOptions options = steps(1);
  options.dump = file("one.safetensors");
  const RunResult one = run(model_.load(model_.plan({}, 2, "gpipe")), options, cpu_only());
  const auto logits = numbers("one.safetensors", "logits");
  const Batches data({.vocabulary = 32, .seq_length = 8, .seed = 1, .samples = 4});
  double loss = 0;
  for (std::uint32_t sample = 0; sample < 4; ++sample) {
    std::int32_t tokens[9];
    data.sample(0, sample, tokens);
    for (int t = 0; t < 8; ++t) {
      const float* row = &logits[(sample * 8 + static_cast<std::size_t>(t)) * 32];
      double sum = 0;
      for (int v = 0; v < 32; ++v) sum += std::exp(static_cast<double>(row[v]));
      loss += (std::log(sum) - static_cast<double>(row[tokens[t + 1]])) / 32;
    }
  }
  EXPECT_NEAR(one.steps.front().loss, loss, 1e-5);
  options.dump = file("two.safetensors");
  static_cast<void>(run(model_.load(model_.plan({1, 3}, 2)), options, cpu_only()));
  EXPECT_EQ(read_bytes(file("one.safetensors")), read_bytes(file("two.safetensors")));
}

// Without dropout the loss on a file is that of a step that trains on it in order; with it, the
// evaluation has none all the same, and it moves no weight.
TEST_F(Weights, EvaluationIsTheLossWithoutDropout) {
  const std::string text =
      read_text_file(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/data/weirs.txt");
  std::vector<double> losses;
  std::vector<std::string> hashes;
  for (const double dropout : {0.0, 0.3}) {
    for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {1, 3}}) {
      for (const char* schedule : {"1f1b", "zb-h1"}) {
        for (const char* mode : {"none", "stage"}) {
          const TinyModel model(true, dropout, 256);
          write_file_atomically(file("text"), text.substr(0, 8 * 24 + 1));
          Plan plan = model.plan(boundaries, 4, schedule);
          plan.recompute = parse_recompute_word(mode).value();
          RunOptions options = steps(1);
          options.evaluate = file("text");
          const RunResult result = run(model.load(plan), options, cpu_only());
          EXPECT_EQ(result.evaluation->samples, 24);
          EXPECT_EQ(result.evaluation->tokens, 192);
          if (dropout == 0) losses.push_back(result.evaluation->loss);
          if (dropout > 0) hashes.push_back(result.parameters_sha256);
        }
      }
    }
  }
  EXPECT_THAT(losses, testing::Each(losses.front()));
  EXPECT_THAT(hashes, testing::Each(hashes.front()));
  EXPECT_NEAR(losses.front(), std::log(256), 1.5);

  const auto at_start = [&](double dropout) {
    const TinyModel model(true, dropout, 256);
    write_file_atomically(file("text"), text.substr(0, 8 * 8 + 1));
    RunOptions options = steps(0);
    options.evaluate = file("text");
    return run(model.load(model.plan({2}, 4)), options, cpu_only()).evaluation->loss;
  };
  EXPECT_EQ(at_start(0.3), at_start(0)) << "the same weights, and no dropout in either";
}

TEST_F(Weights, AFileOfLessThanAMiniBatchIsRefused) {
  const TinyModel model(true, 0.0, 256);
  write_file_atomically(file("short"), std::string(8 * 7 + 1, 'x'));
  RunOptions options = steps(0);
  options.evaluate = file("short");
  EXPECT_THROW(static_cast<void>(run(model.load(model.plan({}, 4)), options, cpu_only())),
               InputError);
}

// q, k and v are three tensors there and one here; row r of our position table is row r + 2 there.
TEST(WeightNames, OfOptSplitAndShiftRows) {
  Model model;
  model.family = "opt";
  TransformerShape block{.hidden = 2, .heads = 1, .kv_heads = 1, .head_dim = 2};
  model.layers = {{"embedding", EmbeddingShape{}, ""}, {"block.7", block, ""}};
  const ParameterTensor qkv{"attention.qkv.weight", {6, 2}};
  const auto rows = named_rows(model, 1, qkv);
  const auto shapes = file_shapes(rows, qkv);
  ASSERT_EQ(shapes.size(), 3U);
  EXPECT_EQ(shapes[1].name, "model.decoder.layers.7.self_attn.k_proj.weight");
  EXPECT_THAT(shapes[1].shape, ElementsAre(2, 2));
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_THAT(to_file(shapes[1], rows, qkv, values), ElementsAre(4, 5, 6, 7));

  const ParameterTensor position{"position", {4, 1}};
  const auto shifted = named_rows(model, 0, position);
  const auto table = file_shapes(shifted, position);
  ASSERT_EQ(table.size(), 1U);
  EXPECT_THAT(table[0].shape, ElementsAre(4, 1));
  const std::vector<float> ours{2, 3, 0, 1};
  const auto theirs = to_file(table[0], shifted, position, ours);
  EXPECT_THAT(theirs, ElementsAre(0, 1, 2, 3));
  std::vector<float> back(4);
  from_file(table[0], shifted, position, theirs, back);
  EXPECT_EQ(back, ours);
}

// Of BERT's head the bias is the predictions' where the table is shared, else the decoder's own;
// files that were made from TensorFlow's call a norm's numbers gamma and beta.
TEST(WeightNames, OfBertAreThoseOfItsMaskedModel) {
  Model model;
  model.family = "bert";
  const TransformerShape block{.hidden = 2, .heads = 1, .kv_heads = 1, .head_dim = 2};
  model.layers = {{"embedding", EmbeddingShape{}, ""},
                  {"block.1", block, ""},
                  {"head", HeadShape{.tied = true}, ""}};
  const auto name = [&](int layer, const std::string& tensor) {
    return named_rows(model, layer, {tensor, {6}}).front().name;
  };
  EXPECT_EQ(name(0, "token_type"), "bert.embeddings.token_type_embeddings.weight");
  EXPECT_EQ(name(0, "norm.shift"), "bert.embeddings.LayerNorm.bias");
  EXPECT_EQ(name(1, "attention.qkv.bias"), "bert.encoder.layer.1.attention.self.query.bias");
  EXPECT_EQ(name(1, "mlp.norm.gain"), "bert.encoder.layer.1.output.LayerNorm.weight");
  EXPECT_EQ(name(2, "dense.weight"), "cls.predictions.transform.dense.weight");
  EXPECT_EQ(name(2, "bias"), "cls.predictions.bias");
  std::get<HeadShape>(model.layers[2].shape).tied = false;
  EXPECT_EQ(name(2, "bias"), "cls.predictions.decoder.bias");
  EXPECT_EQ(older_name("bert.embeddings.LayerNorm.weight"), "bert.embeddings.LayerNorm.gamma");
  EXPECT_EQ(older_name("bert.embeddings.word_embeddings.weight"),
            "bert.embeddings.word_embeddings.weight");
}

TEST(WeightNames, OfAVitAreThoseOfItsClassifier) {
  Model model;
  model.family = "vit";
  const TransformerShape block{.hidden = 2, .heads = 1, .kv_heads = 1, .head_dim = 2};
  model.layers = {{"embedding", EmbeddingShape{.patch = 12}, ""},
                  {"block.0", block, ""},
                  {"norm", NormShape{}, ""},
                  {"head", HeadShape{}, ""}};
  const auto name = [&](int layer, const std::string& tensor) {
    return named_rows(model, layer, {tensor, {6}}).front().name;
  };
  EXPECT_EQ(name(0, "class_token"), "vit.embeddings.cls_token");
  EXPECT_EQ(name(0, "patch.bias"), "vit.embeddings.patch_embeddings.projection.bias");
  EXPECT_EQ(name(0, "position"), "vit.embeddings.position_embeddings");
  EXPECT_EQ(name(1, "attention.qkv.weight"),
            "vit.encoder.layer.0.attention.attention.query.weight");
  EXPECT_EQ(name(2, "norm.gain"), "vit.layernorm.weight");
  EXPECT_EQ(name(3, "bias"), "classifier.bias");
}

// Two rows of three inputs here, three of two there.
TEST(WeightNames, OfGpt2TransposeProducts) {
  Model model;
  model.family = "gpt2";
  model.layers = {{"block.0", TransformerShape{}, ""}};
  const ParameterTensor up{"mlp.up.weight", {2, 3}};
  const auto rows = named_rows(model, 0, up);
  const auto shapes = file_shapes(rows, up);
  EXPECT_EQ(shapes[0].name, "transformer.h.0.mlp.c_fc.weight");
  EXPECT_THAT(shapes[0].shape, ElementsAre(3, 2));
  EXPECT_THAT(to_file(shapes[0], rows, up, std::vector<float>{1, 2, 3, 4, 5, 6}),
              ElementsAre(1, 4, 2, 5, 3, 6));
}

// Every place is met once, whatever the count.
TEST(Batches, AnEpochHasEveryWindowOnce) {
  for (const std::int64_t count : {1, 2, 3, 7, 64, 1000}) {
    std::vector<int> met(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      ++met[static_cast<std::size_t>(shuffled(i, count, 5, 3))];
    EXPECT_THAT(met, testing::Each(1));
  }
  EXPECT_NE(shuffled(0, 1000, 5, 3), shuffled(0, 1000, 5, 4));
}

// Of windows of two inputs and their targets, six bytes have two and four have one; what is left
// over at a file's end is in none, and the next epoch begins again.
TEST(Batches, WindowsOfSeveralFiles) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-batches-" + std::to_string(::getpid()));
  write_file_atomically(folder / "one", "abcde!");
  write_file_atomically(folder / "two", "xyz!");
  const Batches batches({.files = {folder / "one", folder / "two"},
                         .vocabulary = 256,
                         .seq_length = 2,
                         .samples = 2,
                         .shuffled = false});
  EXPECT_EQ(batches.windows(), 3);
  const auto text = [&](std::uint32_t step, std::uint32_t index) {
    std::int32_t tokens[3];
    batches.sample(step, index, tokens);
    return std::string(tokens, tokens + 3);
  };
  EXPECT_EQ(text(0, 0), "abc");
  EXPECT_EQ(text(0, 1), "cde");
  EXPECT_EQ(text(1, 0), "xyz");
  EXPECT_EQ(text(1, 1), "abc");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weir::weights_test

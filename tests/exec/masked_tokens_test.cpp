// Masked tokens: hidden by the seed as BERT hides them, or labelled by a file.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "exec/run/labelled_tokens.hpp"
#include "exec/training/batches.hpp"
#include "exec/weights/safetensors.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::masked_tokens_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kTokens = 64;
using Words = std::array<std::int32_t, 3 * kTokens>;

// Of 1,000 samples of 64 tokens: 15 % and one of each sample, which the draw has met already in
// 0.15 of them, are 64 000 (0.15 + 0.85 / 64) = 10 450 labels, with a deviation of some 95. Of
// these 80 % are read as the last token and, of the other fifth, half as they are: 8,360 and some
// 1,045, the deviations of both below 50. Whatever is no label is as it was drawn.
TEST(MaskedTokens, AreHiddenAsBertHidesThem) {
  const BatchRequest request{
      .vocabulary = 500, .seq_length = kTokens, .masked = true, .seed = 4, .samples = 1000};
  const Batches batches(request);
  std::int64_t labels = 0, masks = 0, kept = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    Words words;
    batches.sample(0, i, words.data());
    std::int64_t of_sample = 0;
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::int32_t token = words[t], label = words[2 * kTokens + t];
      EXPECT_EQ(words[kTokens + t], 0);
      if (label == kNoLabel) continue;
      ++of_sample;
      EXPECT_LT(label, 499) << "the token that hides others is never drawn";
      masks += token == 499 ? 1 : 0;
      kept += token == label ? 1 : 0;
    }
    EXPECT_GT(of_sample, 0);
    labels += of_sample;
  }
  EXPECT_EQ(batches.labels(0), labels);
  EXPECT_NEAR(static_cast<double>(labels), 10'450, 500);
  EXPECT_NEAR(static_cast<double>(masks), 8'360, 450);
  EXPECT_NEAR(static_cast<double>(kept), 1'045, 200);
}

// The same sample in another step hides others; the same step the same, however often asked.
TEST(MaskedTokens, AreDrawnByStepAndSample) {
  const Batches batches(
      {.vocabulary = 500, .seq_length = kTokens, .masked = true, .seed = 4, .samples = 4});
  Words first, again, later;
  batches.sample(2, 3, first.data());
  batches.sample(2, 3, again.data());
  batches.sample(3, 3, later.data());
  EXPECT_EQ(first, again);
  EXPECT_NE(first, later);
}

TEST(MaskedTokens, OfBytesNeedATokenThatHides) {
  const auto file =
      std::filesystem::temp_directory_path() / ("weir-masked-" + std::to_string(::getpid()));
  write_file_atomically(file, std::string(100, 'x'));
  const auto open = [&](std::int64_t vocabulary) {
    static_cast<void>(
        Batches({.files = {file}, .vocabulary = vocabulary, .seq_length = 8, .masked = true}));
  };
  open(257);
  EXPECT_THAT([&] { open(256); },
              ThrowsMessage<InputError>(HasSubstr("bytes need a vocabulary of 257")));
  std::filesystem::remove(file);
}

class LabelledFile : public testing::Test {
 protected:
  ~LabelledFile() override { std::filesystem::remove(path_); }

  struct Part {
    std::string name;
    std::vector<std::int32_t> numbers;
    std::vector<std::int64_t> shape = {2, 3};
  };
  void write(const std::vector<Part>& parts) const {
    std::vector<TensorShape> shapes;
    for (const Part& part : parts) shapes.push_back({part.name, part.shape, "I32"});
    SafetensorsWriter writer(path_, shapes, {});
    for (const Part& part : parts) writer.add(std::as_bytes(std::span(part.numbers)));
    writer.commit();
  }
  [[nodiscard]] std::vector<std::int32_t> read() const { return read_labelled(path_, {3, 10, 2}); }
  [[nodiscard]] std::string complaint(const std::vector<Part>& parts) const {
    write(parts);
    try {
      static_cast<void>(read());
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("weir-labelled-" + std::to_string(::getpid()) + ".safetensors");
  Part ids_{"input_ids", {1, 2, 3, 4, 5, 6}};
  Part types_{"token_type_ids", {0, 1, 0, 1, 0, 1}};
  Part labels_{"labels", {-100, 9, -100, -100, -100, 8}};
};

TEST_F(LabelledFile, IsReadSampleBySample) {
  write({ids_, types_, labels_});
  EXPECT_THAT(read(), ElementsAre(1, 2, 3, 0, 1, 0, -100, 9, -100,  //
                                  4, 5, 6, 1, 0, 1, -100, -100, 8));
  write({ids_, labels_});
  EXPECT_THAT(read(), ElementsAre(1, 2, 3, 0, 0, 0, -100, 9, -100,  //
                                  4, 5, 6, 0, 0, 0, -100, -100, 8));
}

TEST_F(LabelledFile, IsRefusedByNameAndPlace) {
  EXPECT_THAT(complaint({ids_}), HasSubstr("labels: is not there"));
  EXPECT_THAT(complaint({ids_, labels_, {"attention_mask", {1, 1, 1, 1, 1, 0}}}),
              HasSubstr("attention_mask: expected input_ids, labels and token_type_ids alone"));
  EXPECT_THAT(complaint({{"input_ids", {1, 2, 3, 4, 5, 10}}, labels_}),
              HasSubstr("input_ids: sample 1, place 2: 10, expected 0 to 9"));
  EXPECT_THAT(complaint({ids_, {"labels", {-1, 2, 3, 4, 5, 6}}}),
              HasSubstr("labels: sample 0, place 0: -1, expected 0 to 9, or -100 for none"));
  EXPECT_THAT(complaint({ids_, {"labels", std::vector<std::int32_t>(6, -100)}}),
              HasSubstr("labels: has no label"));
  EXPECT_THAT(complaint({ids_, {"labels", {1, 2, 3}, {1, 3}}}),
              HasSubstr("labels: shape [1, 3], expected [samples, 3], of as many samples"));
  EXPECT_THAT(complaint({{"input_ids", {1, 2, 3, 4}, {2, 2}}, labels_}),
              HasSubstr("input_ids: shape [2, 2], expected [samples, 3]"));
}

// The loss is the mean over the labels of the mini-batch, wherever they are: with all of them in
// one micro-batch as when each has its share.
TEST_F(LabelledFile, TrainsWhateverMicrobatchHasTheLabels) {
  const TinyModel model(tiny_bert(0));
  std::vector<std::int32_t> ids(8 * 8), labels(8 * 8, kNoLabel);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 32);
  for (std::size_t i = 0; i < 6; ++i) labels[i] = static_cast<std::int32_t>(i);
  write({{"input_ids", ids, {8, 8}}, {"labels", labels, {8, 8}}});
  RunOptions options;
  options.steps = 2;
  options.warmup_steps = 0;
  options.data = {path_};
  options.evaluate = path_;
  std::vector<double> losses;
  std::set<std::string> hashes;
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {2}, {1, 3, 5}}) {
    const RunResult result = run(model.load(model.plan(boundaries, 4)), options, cpu_only());
    hashes.insert(result.parameters_sha256);
    losses.push_back(result.steps[0].loss);
    EXPECT_EQ(result.evaluation->tokens, 6);
    EXPECT_LT(result.evaluation->loss, result.steps[0].loss);
  }
  EXPECT_EQ(hashes.size(), 1U);
  EXPECT_THAT(losses, testing::Each(losses.front()));
  // One micro-batch instead of four: the same mean.
  Plan whole = model.plan({}, 1);
  whole.micro_batch_size = 8;
  const RunResult result = run(model.load(whole), options, cpu_only());
  EXPECT_NEAR(result.steps[0].loss, losses.front(), 1e-6);
}

}  // namespace
}  // namespace weir::masked_tokens_test

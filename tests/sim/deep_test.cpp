// Searches over models of thousands of layers, most of them alike: what is known of them
// grows with the layers that differ, and a search ends when it is asked to, in each of its parts.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "costmodel/table/builtin.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/sweep.hpp"

namespace weir::deep_test {
namespace {

constexpr int kBlocks = 5000;

// Nothing named but 64 A100s and a mini-batch of 64.
class Deep : public testing::Test {
 protected:
  Deep() {
    const auto examples = std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples";
    cluster_ = load_cluster(examples / "clusters/dgx-a100.json");
    const auto stack = examples / "stacks/megatron-core.json";
    set_stack(cluster_, load_stack(stack));
    folder_ = std::filesystem::path(testing::TempDir()) / "weir-deep";
    std::filesystem::create_directories(folder_);
    const auto file = folder_ / "deep.json";
    std::ofstream(file) << R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": )"
                        << kBlocks << R"(, "vocab_size": 512, "n_positions": 128})";
    Plan base;
    base.model_path = "deep.json";
    base.model_sha256 = sha256_hex(read_text_file(file));
    base.seq_length = 128;
    base.dtype = Dtype::bf16;
    base.attention = AttentionKind::fused;
    base.slots = 2;
    model_ = load_model(file);
    set_treatment(model_, base);
    SweepRequest asked{.base = base, .folder = folder_};
    for (auto* list : {&asked.pp, &asked.vpp, &asked.tp, &asked.cp, &asked.dp, &asked.ep,
                       &asked.etp, &asked.slices, &asked.zero})
      list->clear();
    asked.schedules.clear();
    asked.recompute.clear();
    asked.devices = 64;
    asked.exact_devices = true;
    asked.global_batch_size = 64;
    asked.memory_limit = cluster_.largest_memory();
    asked.software = parse_abilities(read_text_file(stack), stack.string());
    asked.keep = 3;
    request_ = with_open_choices(asked, model_, cluster_);
    costs_ = builtin_costs(model_, 128, Dtype::bf16, cluster_, splits(request_, model_));
  }
  ~Deep() override { std::filesystem::remove_all(folder_); }

  // How long the search took. A second is a hundred times what such a search needs between two
  // questions whether it is to end, on a machine that is not busy.
  [[nodiscard]] double searched(SweepResult& result) const {
    const auto begin = std::chrono::steady_clock::now();
    result = sweep(request_, costs_, cluster_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return took.count();
  }

  Cluster cluster_;
  std::filesystem::path folder_;
  Model model_;
  SweepRequest request_;
  Costs costs_;
};

// Of each split one cost of each kind of layer, four parts and runs, not five thousand.
TEST_F(Deep, WhatIsKnownGrowsWithTheLayersThatDiffer) {
  const std::vector<Split> all = splits(request_, model_);
  EXPECT_EQ(costs_.layers.size(), 4 * all.size());
  SplitCosts known(model_, costs_, cluster_.stack);
  Plan plan = request_.base;
  const LayerCosts& costs = known.add(plan);
  EXPECT_EQ(costs.part()->kinds.size(), 4U);
  EXPECT_EQ(costs.runs({}).size(), 4U);
  EXPECT_EQ(costs.runs({.mode = RecomputeMode::full, .layers = {{5, 9}}}).size(), 6U);
}

TEST_F(Deep, ASearchEndsWithItsBudgetAndSaysItsGap) {
  request_.budget = Seconds(4);
  SweepResult result;
  EXPECT_LT(searched(result), 4 + 4);
  EXPECT_FALSE(result.plans.empty());
  EXPECT_FALSE(result.stopped_after);
  // On a machine so slow that not all was listed nothing is known of the rest.
  EXPECT_TRUE(std::isinf(result.gap) || result.gap < 0.05) << result.gap;
}

// Before anything is listed, while it is listed, and while plans are looked at.
TEST_F(Deep, ASearchEndsWhenItIsStopped) {
  for (const int questions : {0, 40, 400, 3000}) {
    std::atomic<int> asked = 0;
    std::atomic<bool> said = false;
    std::chrono::steady_clock::time_point when;
    request_.stop = [&] {
      if (asked++ < questions) return false;
      // The first who hears it notes the time.
      if (!said.exchange(true)) when = std::chrono::steady_clock::now();
      return true;
    };
    SweepResult result;
    static_cast<void>(searched(result));
    const std::chrono::duration<double> late = std::chrono::steady_clock::now() - when;
    EXPECT_TRUE(said) << questions;
    EXPECT_LT(late.count(), 4) << questions;
    EXPECT_TRUE(result.stopped_after.has_value()) << questions;
    EXPECT_GT(result.gap, 0) << questions;
  }
}

}  // namespace
}  // namespace weir::deep_test

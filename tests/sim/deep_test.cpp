// Searches over models of thousands of layers, most of them alike: what is known of them
// grows with the layers that differ, and a search ends when it is asked to, in each of its parts.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "costmodel/table/builtin.hpp"
#include "plan/job/plan_json.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/explain/rejected.hpp"
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
    folder_ = std::filesystem::path(testing::TempDir()) / ("weir-deep-" + std::to_string(getpid()));
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

  // What the search found, and how long it took.
  [[nodiscard]] std::pair<SweepResult, double> searched() const {
    const auto begin = std::chrono::steady_clock::now();
    SweepResult result = sweep(request_, costs_, cluster_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return {std::move(result), took.count()};
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

// The whole search takes some ten seconds of processor time where it is not watched, and much more
// where it is; between two questions whether it is to end it needs hundredths of a second. A minute
// is far from either on a busy machine.
TEST_F(Deep, ASearchEndsWithItsBudgetAndSaysItsGap) {
  request_.budget = Seconds(1);
  const auto [result, took] = searched();
  EXPECT_LT(took, 1 + 60);
  // A whole search proves its best: it has none.
  EXPECT_GT(result.gap, 0);
  EXPECT_FALSE(result.stopped_after);
  // Where nothing was found in time, or not all was listed, nothing is known of the rest.
  EXPECT_EQ(std::isinf(result.gap), result.plans.empty() || !result.listed) << result.gap;
}

// What further questions leave of a budget is the first one's again: a search ends before its
// budget only where its best is proved.
TEST_F(Deep, ABudgetIsSpentUntilTheBestIsProved) {
  request_.front = true;
  request_.families = families_of(request_);
  for (const double budget : {1.5, 3.0}) {
    request_.budget = Seconds(budget);
    const auto [result, took] = searched();
    EXPECT_TRUE(took >= budget || result.gap == 0)
        << budget << ": " << took << " s, " << result.gap;
  }
}

// Before anything is listed, while it is listed, and while plans are looked at: the threads that
// are at work hear of it, each at what it does next, and nobody asks hundreds of times more.
TEST_F(Deep, ASearchEndsWhenItIsStopped) {
  for (const int questions : {0, 40, 400, 3000}) {
    std::atomic<int> asked = 0;
    request_.stop = [&] { return asked++ >= questions; };
    const SweepResult result = searched().first;
    EXPECT_GT(asked, questions);
    EXPECT_LT(asked, questions + 500);
    EXPECT_TRUE(result.stopped_after.has_value()) << questions;
  }
}

// Nodes of a listing that was cut have other numbers than those of a whole one: no state is kept of
// them. A search that goes on lists all, whatever its budget; one that a signal ends before that
// has nothing to go on from, and says that it was stopped.
TEST_F(Deep, AStateIsOfAWholeListing) {
  int kept = 0;
  request_.checkpoint = [&](const SearchState& /*state*/) { ++kept; };
  request_.budget = Seconds(1e-9);
  const SweepResult cut = searched().first;
  EXPECT_FALSE(cut.listed);
  EXPECT_TRUE(std::isinf(cut.gap));
  EXPECT_EQ(kept, 0);
  std::optional<SearchState> state;
  std::atomic<bool> known = false;
  request_.budget.reset();
  request_.checkpoint = [&](const SearchState& its) {
    if (!known) state = its;
    known = true;
  };
  request_.stop = [&] { return known.load(); };
  const SweepResult first = searched().first;
  ASSERT_TRUE(state);
  EXPECT_TRUE(first.listed);
  EXPECT_TRUE(first.stopped_after);
  request_.checkpoint = {};
  request_.resume = state;
  const SweepResult stopped = searched().first;
  EXPECT_FALSE(stopped.listed);
  EXPECT_TRUE(stopped.stopped_after);
  request_.stop = {};
  request_.budget = Seconds(1e-9);
  const SweepResult on = searched().first;
  EXPECT_TRUE(on.listed);
  EXPECT_EQ(on.candidates, first.candidates);
  ASSERT_EQ(on.plans.size(), first.plans.size());
  for (std::size_t i = 0; i < on.plans.size(); ++i)
    EXPECT_EQ(to_json(on.plans[i].plan), to_json(first.plans[i].plan));
}

}  // namespace
}  // namespace weir::deep_test

// Plans whose sequences are computed slice by slice: what they take, send and keep, and what a
// search makes of them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <variant>

#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/model/decoder.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/search/sweep.hpp"

namespace weir::slices_test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kTokens = 8192;

// Sixteen blocks of Llama's kind; every tensor that a block keeps grows with the tokens.
Model blocks() {
  Decoder d;
  d.embedding = {.vocabulary = 4096, .hidden = 1024};
  d.block = {.hidden = 1024, .heads = 8, .kv_heads = 8, .head_dim = 128, .ffn = 4096};
  d.block.rotary = true;
  d.block.attention = AttentionKind::fused;
  d.blocks = 16;
  d.norm = {1024, NormKind::rms_norm, 1e-6};
  d.head = {.vocabulary = 4096, .hidden = 1024};
  Model model = decoder_model(d);
  model.seq_length = kTokens;
  return model;
}

Cluster h100s() {
  Cluster cluster = load_cluster(std::filesystem::path(WEIR_SOURCE_DIR) /
                                 "tools/examples/clusters/dgx-h100.json");
  cluster.nodes = 1;
  return cluster;
}

Plan plan_of(int slices) {
  Plan plan;
  plan.seq_length = kTokens;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.pp = 4;
  plan.microbatches = 8;
  plan.slices = slices;
  plan.schedule = slices > 1 ? "seq1f1b" : "1f1b";
  plan.boundaries = {5, 9, 13};
  return plan;
}

ResolvedPlan resolved(const Plan& plan, const Model& model) {
  auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  return derive(plan, model, std::get<Schedule>(std::move(made)));
}

// A slice has a quarter of the tokens and so sends a quarter; its products are smaller and none of
// them faster, so four of them take as long as the whole or longer. Of 1F1B's four micro-batches
// rank 0 keeps seven slices, K - 1 + S, so 7/16 of the activations (Sun et al. 2024, table 1).
TEST(Slices, DivideTimesMessagesAndWhatIsKept) {
  const Model model = blocks();
  const Cluster cluster = h100s();
  const Plan whole = plan_of(1), sliced = plan_of(4);
  const Costs costs =
      builtin_costs(model, kTokens, Dtype::bf16, cluster, {whole.split(), sliced.split()});
  const ResolvedPlan one = resolved(whole, model), four = resolved(sliced, model);
  EXPECT_EQ(one.stages[1].input_bytes, 4 * four.stages[1].input_bytes);
  EXPECT_EQ(one.stages[1].parameters, four.stages[1].parameters);
  const LayerCosts of_one(one, costs, cluster.stack), of_four(four, costs, cluster.stack);
  const StageCost a = StageCosts(whole, of_one, cluster).of(one.stages[1]);
  const StageCost b = StageCosts(sliced, of_four, cluster).of(four.stages[1]);
  EXPECT_GE(4 * b.f, a.f);
  EXPECT_LT(4 * b.f, 2 * a.f);
  EXPECT_GE(4 * b.b, a.b);
  EXPECT_EQ(a.optimizer, b.optimizer);  // it knows no slices
  const auto kept = [&](const ResolvedPlan& plan) {
    const Forecast f = forecast(plan, costs, cluster).forecast;
    EXPECT_EQ(f.peak_in_flight[0], plan.plan.slices == 1 ? 4 : 7);
    return static_cast<double>(f.memory[0].at_peak[MemoryKind::activations].count());
  };
  const auto left = [&](const ResolvedPlan& plan) {  // by a forward
    const StageMemory memory(plan.plan, *plan.part, plan.stages[0], Allocator::arena);
    return memory.of(ActionKind::F, false).net[MemoryKind::activations];
  };
  EXPECT_EQ(left(one), 4 * left(four));
  // A peak is within a pass, not at its end.
  EXPECT_NEAR(kept(four) / kept(one), 7.0 / 16, 0.01);
}

// Four layers of one time on two ranks, all else nothing: (M S + K - 1)(f + b) / S of the whole
// pass's f and b. Costs that know whole layers only are divided, and the forecast says so.
TEST(Slices, TheStepIsTheClosedForm) {
  Model model;
  model.seq_length = 12;
  TransformerShape block{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64};
  for (int l = 0; l < 4; ++l) model.layers.push_back({"block", block, ""});
  Cluster cluster;
  cluster.intra = {Seconds(0), BytesPerSecond(0)};
  cluster.device.peak_fp32 = FlopsPerSecond(1e12);
  Plan plan;
  plan.seq_length = 12;
  plan.pp = 2;
  plan.microbatches = 3;
  plan.boundaries = {2};
  plan.optimizer.kind = OptimizerKind::sgd;
  Costs costs = builtin_costs(model, 12, Dtype::fp32, cluster);
  costs.host_overhead = Seconds(0);
  for (LayerCost& cost : costs.layers) {
    cost.by_batch.clear();
    cost.by_batch[1] = {{Seconds(3e-3), Seconds(3e-3), Seconds(3e-3), Seconds(6e-3)}};
    cost.optimizer = Seconds(0);
  }
  for (const int slices : {2, 3, 4}) {
    plan.slices = slices;
    plan.schedule = "seq1f1b";
    const Forecast f = forecast(resolved(plan, model), costs, cluster).forecast;
    const double pass = 2 * (3e-3 + 6e-3);  // of a stage's two layers
    EXPECT_NEAR(f.step_time.count(), (3.0 * slices + 1) * pass / slices, 1e-9) << slices;
    EXPECT_THAT(f.warnings, testing::Contains(HasSubstr(fmt::format("slices = {}", slices))));
  }
}

// What cannot be sliced, each by its reason.
TEST(Slices, ThatCannotBeAreNamed) {
  const auto reason = [](const Model& model, std::int64_t tokens, const Split& split) {
    const auto misfit = cannot_split(model, tokens, split);
    return misfit ? misfit->key + ": " + misfit->reason : "";
  };
  Model model;
  TransformerShape block{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64};
  model.layers = {{"block.0", block, ""}};
  EXPECT_EQ(reason(model, 12, {.slices = 4}), "");
  EXPECT_EQ(reason(model, 12, {.slices = 5}),
            "slices: 5 does not divide the 12 tokens of a sample");
  EXPECT_THAT(reason(model, 12, {.cp = 2, .slices = 2}), HasSubstr("slices: expected cp = 1"));
  EXPECT_THAT(reason(model, 12, {.tp = 4, .sequence_parallel = true, .slices = 6}),
              HasSubstr("sequence_parallel: tp = 4 does not divide the 2 tokens"));
  block.causal = false;  // BERT's
  model.layers = {{"block.0", block, ""}};
  EXPECT_EQ(reason(model, 12, {.slices = 2}), "slices: block.0 attends to tokens that come later");
  model.layers = {{"timed", TimedShape{}, ""}};
  EXPECT_THAT(reason(model, 12, {.slices = 2}), HasSubstr("slices: timed is known by its times"));
}

// A plan's slices are its schedule's, whoever wrote it.
TEST(Slices, AScheduleOfAFileIsThePlans) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-slices-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string config =
      R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,
          "n_positions": 8})";
  write_file_atomically(folder / "tiny.json", config);
  // K = 2, M = 1, two slices.
  write_file_atomically(folder / "mine.csv", "# segments=2\n0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n");
  Plan plan;
  plan.model_path = "tiny.json";
  plan.model_sha256 = sha256_hex(config);
  plan.seq_length = 8;
  plan.pp = 2;
  plan.boundaries = {3};
  plan.schedule = "mine.csv";
  plan.slices = 2;
  EXPECT_EQ(resolve(plan, folder).schedule.shape.segments, 2);
  EXPECT_THAT(to_json(plan), HasSubstr("  \"schedule\": \"mine.csv\",\n  \"slices\": 2,\n"));
  EXPECT_EQ(parse_plan(to_json(plan), "p"), plan);
  plan.slices = 1;
  EXPECT_EQ(to_json(plan).find("slices"), std::string::npos);
  try {
    static_cast<void>(resolve(plan, folder));
    ADD_FAILURE() << "it is taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("slices sequences by 2; the plan says slices = 1"));
  }
  std::filesystem::remove_all(folder);
}

// Every plan that is found is forecast as it stands alone, and the search that keeps one finds the
// same best as the one that keeps all; schedules that slice have slices and the others have none.
TEST(Slices, ASearchFindsTheBestNumber) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-slices-sweep-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string config =
      R"({"model_type": "gpt2", "n_embd": 512, "n_head": 8, "n_layer": 8, "vocab_size": 512,
          "n_positions": 4096})";
  write_file_atomically(folder / "small.json", config);
  SweepRequest request;
  request.folder = folder;
  request.base.model_path = "small.json";
  request.base.model_sha256 = sha256_hex(config);
  request.base.seq_length = 4096;
  request.base.dtype = Dtype::bf16;
  request.base.attention = AttentionKind::fused;
  request.pp = {2, 4};
  request.slices = {1, 2, 4};
  request.schedules = {"1f1b", "seq1f1b", "zb-h1"};
  request.global_batch_size = 4;
  request.memory_limit = Bytes(std::int64_t{80} << 30);
  const Cluster cluster = h100s();
  Model model = load_model(folder / "small.json");
  set_attention(model, AttentionKind::fused);
  const Costs costs = builtin_costs(model, 4096, Dtype::bf16, cluster, splits(request, model));
  const SweepResult all = sweep(request, costs, cluster);
  int sliced = 0;
  for (const Ranked& one : all.plans) {
    const Plan& plan = one.plan;
    sliced += plan.slices > 1 ? 1 : 0;
    EXPECT_TRUE(plan.slices == 1 || plan.schedule == "seq1f1b") << plan.schedule;
    const Forecast alone = forecast(resolve(plan, folder), costs, cluster).forecast;
    EXPECT_EQ(one.forecast.step_time, alone.step_time) << plan.schedule << plan.slices;
  }
  EXPECT_GT(sliced, 10);
  request.keep = 1;
  const SweepResult best = sweep(request, costs, cluster);
  ASSERT_FALSE(best.plans.empty());
  EXPECT_EQ(best.plans[0].forecast.step_time, all.plans[0].forecast.step_time);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weir::slices_test

// Two tables say what a trainer runs: its stack's abilities, to which a search keeps, and the rows
// and remarks of its exporter. Over the whole space of words they say the same.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "plan/job/stack.hpp"
#include "plan/job/stack_abilities.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir::abilities_test {
namespace {

struct Software {
  const char* stack;  // of the examples
  Trainer trainer;
  ExportedJob (*written)(const ResolvedPlan&, const ExportOptions&);
};

StackAbilities abilities_of(const char* stack) {
  const auto path = std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/stacks" / stack;
  return parse_abilities(read_text_file(path), path.string());
}

// What the exporter does not carry of a plan: the row that refuses it, or the words it remarks on.
// A V's order of PyTorch's own, selective by operation and reduction beside the backward in any
// case are as torchtitan's stacks forecast them.
std::string not_carried(const Software& software, const ResolvedPlan& plan) {
  if (const TrainerRow* row = refused_by(software.trainer, facts_of(plan)))
    return std::string(row->name);
  std::string words;
  for (const Remark& remark : software.written(plan, {}).not_carried) {
    const bool as_forecast = remark.text.find("as torchtitan's stacks") != std::string::npos ||
                             remark.text.find("always reduces") != std::string::npos;
    if (as_forecast) continue;
    for (const char* word : {"zero", "recompute", "rank_order", "overlap_grad_reduce"}) {
      if (remark.name == word) words += remark.name + " ";
    }
  }
  return words;
}

// One word other than none, 0, Megatron's order of ranks and no overlap.
void for_each_word(const Plan& plan, const std::function<void(Plan)>& judge) {
  judge(plan);
  const auto changed = [&](auto change) {
    Plan other = plan;
    change(other);
    judge(std::move(other));
  };
  for (const int zero : {1, 2, 3}) changed([&](Plan& p) { p.zero = zero; });
  for (const RecomputeMode mode :
       {RecomputeMode::selective, RecomputeMode::full, RecomputeMode::stage})
    changed([&](Plan& p) { p.recompute.mode = mode; });
  if (plan.pp > 1) changed([](Plan& p) { p.rank_order = RankOrder::tp_cp_pp_dp; });
  changed([](Plan& p) { p.overlap_grad_reduce = true; });
}

// Every schedule with its own chunks on one rank and on two, with whole rounds of micro-batches and
// without, two replicas, and each word of what they share.
void for_each_plan(const std::function<void(Plan)>& judge) {
  for (const Generator& generator : generators()) {
    for (const int ranks : {1, 2}) {
      for (const int microbatches : {4, 5}) {
        Plan plan;
        plan.seq_length = 128;
        plan.dtype = Dtype::bf16;
        plan.attention = AttentionKind::fused;
        plan.schedule = generator.name;
        plan.pp = ranks;
        plan.vpp = std::max(generator.default_chunks, 1);
        plan.slices = generator.default_slices;
        plan.dp = 2;
        plan.microbatches = microbatches;
        for_each_word(plan, judge);
      }
    }
  }
}

// The words in which the two differ, one of each kind.
std::set<std::string> differences(const Software& software, const Model& model = llama_like(8)) {
  const StackAbilities its = abilities_for(abilities_of(software.stack), model);
  std::set<std::string> found;
  for_each_plan([&](Plan plan) {
    const auto made =
        make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
    if (!std::holds_alternative<Schedule>(made)) return;
    const int each = 8 / plan.stages();
    for (int s = 1; s < plan.stages(); ++s) plan.boundaries.push_back(1 + s * each);
    const auto lacking = beyond(its, plan);
    const std::string lost = not_carried(software, loaded(plan, model));
    if (lacking.has_value() == !lost.empty()) return;
    found.insert(lacking ? "the search lacks " + *lacking
                         : plan.schedule + " K " + std::to_string(plan.pp) + ": lost " + lost);
  });
  return found;
}

TEST(Abilities, AreWhatMegatronsExporterCarries) {
  EXPECT_THAT(differences({"megatron-core.json", Trainer::megatron, &export_megatron}),
              testing::IsEmpty());
}

// Its stacks list the orders that PyTorch has classes of. Of the others torchtitan runs looped ones
// from a file that the exporter writes: a search has them where it is asked for them.
TEST(Abilities, AreWhatTorchtitansExporterCarries) {
  for (const char* stack : {"torchtitan.json", "torchtitan-eager.json"}) {
    EXPECT_THAT(
        differences({stack, Trainer::torchtitan, &export_torchtitan_registry}),
        testing::ElementsAre("the search lacks schedule 1f1b-eager",
                             "the search lacks schedule zb-h1", "the search lacks schedule zb-h2"));
  }
}

// Of a model whose head multiplies by the embedding's table it runs no pipeline at all.
TEST(Abilities, AreWhatTorchtitansExporterCarriesOfTiedModels) {
  Model tied = llama_like(8);
  std::get<EmbeddingShape>(tied.layers.front().shape).tied = true;
  std::get<HeadShape>(tied.layers.back().shape).tied = true;
  for (const char* stack : {"torchtitan.json", "torchtitan-eager.json"}) {
    EXPECT_THAT(differences({stack, Trainer::torchtitan, &export_torchtitan_registry}, tied),
                testing::IsEmpty());
  }
}

// Software that records no CUDA graphs says so, for what a stack does not say it has.
TEST(Abilities, GraphsAreOfThoseThatRecordThem) {
  for (const char* stack : {"megatron-core.json", "torchtitan.json", "torchtitan-eager.json"})
    EXPECT_TRUE(abilities_of(stack).cuda_graphs) << stack;
  for (const char* stack : {"nanotron.json", "megatron-2021.json", "megatron-deepspeed-2022.json",
                            "megatron-deepspeed-fp32.json", "llm-foundry.json"})
    EXPECT_FALSE(abilities_of(stack).cuda_graphs) << stack;
}

// DeepSpeed's copies of those versions have no stream of their own.
TEST(Abilities, CopiesToTheHostAreWaitedForByOldDeepSpeed) {
  const auto waits = [](const char* stack) {
    return load_stack(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/stacks" / stack)
        .time.blocking_offload;
  };
  for (const char* stack : {"megatron-deepspeed-2022.json", "megatron-deepspeed-fp32.json"})
    EXPECT_TRUE(waits(stack)) << stack;
  EXPECT_FALSE(waits("megatron-core.json"));
}

}  // namespace
}  // namespace weir::abilities_test

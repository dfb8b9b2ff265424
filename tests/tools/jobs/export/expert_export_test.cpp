// A plan with experts among its replicas through every exporter: it comes back equal, or what is
// not carried is named.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/job/plan_json.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::expert_export_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

// Blocks like Mixtral's: 8 experts, of which a token visits 2.
Model of_experts() {
  Decoder d = as_decoder(llama_like(8)).value();
  d.block.experts = 8;
  d.block.experts_per_token = 2;
  Model model = decoder_model(d, 128);
  model.initializer_range = 0.006;
  return model;
}

// The first of them dense.
Model one_dense() {
  Decoder d = as_decoder(of_experts()).value();
  d.first_block = d.block;
  d.first_block.experts = d.first_block.experts_per_token = 1;
  d.first_blocks = 1;
  return decoder_model(d, 128);
}

// Its 4 replicas share the experts of each layer in twos.
Plan in_twos(double load = 1) {
  Plan plan = example();
  plan.ep = 2;
  plan.expert_load = load;
  plan.expert_dispatch = ExpertDispatch::alltoall;
  plan.sequence_parallel = plan.overlap_grad_reduce = true;
  plan.attention = AttentionKind::fused;
  plan.zero = 1;
  return plan;
}

TEST(ExpertExport, MegatronsArgumentsReadBack) {
  const ResolvedPlan plan = loaded(in_twos(), of_experts());
  const ExportedJob job = export_megatron(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("--expert-model-parallel-size 2"));
  EXPECT_THAT(names(job.not_carried), Not(Contains("ep")));
  const Job read = read_megatron_job(job.files.front().text, "megatron.sh", {});
  EXPECT_EQ(read.plan, plan.plan);
  EXPECT_EQ(to_layer_list(read.model), to_layer_list(plan.model));
}

// How tokens travel and which modules are rebuilt, words apart, go out and come back.
TEST(ExpertExport, MegatronsWordsOfExpertsReadBack) {
  Plan words = in_twos();
  words.expert_dispatch = ExpertDispatch::once;
  words.recompute = parse_recompute_word("selective:layernorm+moe_act").value();
  const ResolvedPlan plan = loaded(words, of_experts());
  const std::string text = export_megatron(plan, {}).files.front().text;
  EXPECT_THAT(text, HasSubstr("--recompute-modules layernorm moe_act"));
  EXPECT_THAT(text, HasSubstr("--moe-token-dispatcher-type flex"));
  EXPECT_EQ(read_megatron_job(text, "megatron.sh", {}).plan, plan.plan);
}

// Two tensor-parallel devices hold experts of their own: the eight of a layer are among eight.
TEST(ExpertExport, ExpertsThatTensorParallelismDoesNotDivideReadBack) {
  Plan folded = in_twos();
  ASSERT_EQ(folded.tp, 2);
  folded.etp = 1;
  folded.ep = 8;
  const ResolvedPlan plan = loaded(folded, of_experts());
  const ExportedJob job = export_megatron(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("--expert-tensor-parallel-size 1"));
  EXPECT_EQ(read_megatron_job(job.files.front().text, "megatron.sh", {}).plan, plan.plan);
  for (const auto write : {export_torchtitan_registry, export_torchtitan_toml}) {
    const ExportedFile file = write(plan, {}).files.front();
    EXPECT_EQ(read_torchtitan_job(file.text, file.name, {.model = &plan.model}).plan, plan.plan);
    folded.ep = 1;  // there experts are divided by tp then
    EXPECT_THAT(names(write(loaded(folded, of_experts()), {}).not_carried), Contains("etp"));
    folded.ep = 8;
  }
}

TEST(ExpertExport, BothOfTorchtitansFormsReadBack) {
  const ResolvedPlan plan = loaded(in_twos(), of_experts());
  for (const auto write : {export_torchtitan_registry, export_torchtitan_toml}) {
    const ExportedJob job = write(plan, {});
    const ExportedFile& file = job.files.front();
    Job read = read_torchtitan_job(file.text, file.name, {.model = &plan.model});
    // The registry has no word for experts that tensor parallelism divides: its devices share
    // whole ones, which the export says and the reader finds.
    Plan there = plan.plan;
    if (write == export_torchtitan_registry) {
      there.etp = 1;
      EXPECT_THAT(names(job.not_carried), Contains("etp"));
    }
    EXPECT_EQ(to_json(read.plan), to_json(there)) << file.name;
    EXPECT_TRUE(std::ranges::any_of(job.not_carried, [](const Remark& remark) {
      return remark.name == "model" && remark.text.starts_with("llama3 is dense");
    })) << file.name;
    EXPECT_THAT(names(job.not_carried), Not(Contains("ep"))) << file.name;
  }
}

// Their scripts have the pipeline alone; DeepSpeed's file has ZeRO 1.
TEST(ExpertExport, PyTorchsAndDeepSpeedsScriptsNameWhatIsTheUsers) {
  Plan plan = in_twos();
  plan.vpp = 1;
  plan.boundaries = {5};
  plan.schedule = "1f1b";
  for (const auto write : {export_torch, export_deepspeed}) {
    const auto said = names(write(loaded(plan, of_experts()), {}).not_carried);
    EXPECT_THAT(said, IsSupersetOf({"ep", "sequence_parallel", "overlap_grad_reduce"}));
    EXPECT_EQ(testing::Value(said, Contains("zero")), write == export_torch);
  }
}

// How uneven routing is no exporter has a word for.
TEST(ExpertExport, AnUnevenLoadIsNamedByAll) {
  Plan plan = in_twos(1.25);
  plan.vpp = 1;
  plan.boundaries = {5};
  plan.schedule = "1f1b";
  const ResolvedPlan uneven = loaded(plan, of_experts());
  for (const auto write : {export_megatron, export_torchtitan_registry, export_torchtitan_toml,
                           export_torch, export_deepspeed}) {
    EXPECT_THAT(names(write(uneven, {}).not_carried), Contains("expert_load"));
  }
  const ExportedJob job = export_megatron(uneven, {});
  EXPECT_EQ(read_megatron_job(job.files.front().text, "megatron.sh", {}).plan.expert_load, 1);
}

// Torchtitan's files have blocks of one kind.
TEST(ExpertExport, TorchtitanRefusesDenseFirstBlocks) {
  const ResolvedPlan plan = loaded(in_twos(), one_dense());
  for (const auto write : {export_torchtitan_registry, export_torchtitan_toml}) {
    EXPECT_THAT(complaint([&] { static_cast<void>(write(plan, {})); }),
                HasSubstr("layers: expected an embedding, equal blocks"));
  }
}

}  // namespace
}  // namespace weir::expert_export_test

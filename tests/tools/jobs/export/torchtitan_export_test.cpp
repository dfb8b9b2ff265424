// Plans as torchtitan's files, its registry and the TOML before it. What is written is read back as
// the same plan.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/torchtitan/import.hpp"
#include "tools/jobs/torchtitan/words.hpp"

namespace weir::torchtitan_export_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Job back(const ResolvedPlan& plan, const ExportedJob& job) {
  const ExportedFile& file = job.files.front();
  return read_torchtitan_job(file.text, file.name, {.model = &plan.model});
}

TEST(TorchtitanExport, AsynchronousTensorParallelismReadsBack) {
  Plan p = example();
  p.sequence_parallel = p.overlap_tensor_parallel = p.overlap_grad_reduce = true;
  p.attention = AttentionKind::fused;
  p.zero = 1;
  const ResolvedPlan plan = loaded(p, llama_like(8));
  const ExportedJob job = export_torchtitan_toml(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("enable_async_tensor_parallel = true"));
  EXPECT_EQ(back(plan, job).plan, p);
}

TEST(TorchtitanExport, RebuiltLayersReadBack) {
  Plan p = example();
  p.sequence_parallel = p.overlap_grad_reduce = true;
  p.zero = 1;
  p.attention = AttentionKind::fused;
  p.recompute = parse_recompute_word("3,5,7-8").value();
  const ResolvedPlan plan = loaded(p, llama_like(8));
  const ExportedJob job = export_torchtitan_toml(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("selective_ac_option = \"2\""));
  EXPECT_THAT(names(job.not_carried), ElementsAre("model", "compile", "data"));
  EXPECT_EQ(back(plan, job).plan, p);
  p.recompute = parse_recompute_word("full:2").value();
  EXPECT_THAT(names(export_torchtitan_toml(loaded(p, llama_like(8)), {}).not_carried),
              ElementsAre("model", "recompute", "compile", "data"));
  p.recompute = parse_recompute_word("stage").value();
  EXPECT_THAT(names(export_torchtitan_toml(loaded(p, llama_like(8)), {}).not_carried),
              ElementsAre("model", "recompute", "recompute_placement", "compile", "data"));
}

// Both forms, which differ in their words alone.
struct Form {
  ExportedJob (*write)(const ResolvedPlan&, const ExportOptions&);
  std::string_view file, flavor;
};
class TorchtitanForms : public testing::TestWithParam<Form> {
 protected:
  static Plan shared() {
    Plan p = example();
    p.sequence_parallel = p.overlap_grad_reduce = true;  // always, there
    p.zero = 1;
    p.attention = AttentionKind::fused;
    return p;
  }
};
INSTANTIATE_TEST_SUITE_P(Both, TorchtitanForms,
                         testing::Values(Form{export_torchtitan_registry, "config_registry.py",
                                              "model_registry(\"8B\")"},
                                         Form{export_torchtitan_toml, "job.toml",
                                              "flavor = \"8B\""}),
                         [](const auto& info) { return info.index == 0 ? "Registry" : "Toml"; });

TEST_P(TorchtitanForms, ReadsBackAsTheSamePlan) {
  for (const char* schedule : {"interleaved-1f1b", "looped-bfs"}) {
    Plan p = shared();
    p.schedule = schedule;
    p.zero = schedule[0] == 'i' ? 1 : 3;
    const ResolvedPlan plan = loaded(p, llama_like(8));
    const ExportedJob job = GetParam().write(plan, {});
    EXPECT_EQ(job.files.front().name, GetParam().file);
    Job read = back(plan, job);
    if (read.plan.schedule == "schedule.csv") {  // an order of the plan's own, as a file
      ASSERT_EQ(job.files.size(), 2U);
      EXPECT_THAT(job.files[1].text, HasSubstr("0F0,0F1,"));
      read.plan.schedule = schedule;
    }
    EXPECT_EQ(read.plan, p) << schedule;
    EXPECT_EQ(names(read.remarks).size(), p.zero == 3 ? 1U : 0U);  // gradients, once a step
    EXPECT_THAT(names(job.not_carried), ElementsAre("model", "compile", "data"));
    EXPECT_EQ(read.stack, "torchtitan-eager");
  }
}

// torchtitan's norm and head are modules of their own, so a stage may end between them, or have one
// of them alone: 8 blocks are layers 1 to 8, the norm is 9, the head 10.
TEST_P(TorchtitanForms, TheNormMayStandAlone) {
  Plan p = shared();
  p.recompute = {};
  p.boundaries = {3, 9, 10};
  const ResolvedPlan plan = loaded(p, llama_like(8));
  const ExportedJob job = GetParam().write(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("[\"norm\"],"));
  EXPECT_THAT(job.files.front().text, testing::Not(HasSubstr("\"norm\", ")));
  EXPECT_EQ(back(plan, job).plan, p);
  EXPECT_THAT(names(job.not_carried), ElementsAre("model", "compile", "data"));
}

// The optimizer and its course: both kinds, every shape of the rate, with and without clipping.
TEST_P(TorchtitanForms, TrainingReadsBack) {
  Plan p = shared();
  for (const RateSchedule& rate : {RateSchedule{}, RateSchedule{.warmup_iters = 9},
                                   RateSchedule{10, 200, DecayStyle::linear, 0},
                                   RateSchedule{0, 200, DecayStyle::cosine, 3e-5}}) {
    p.optimizer.kind = rate.warmup_iters == 9 ? OptimizerKind::adam : OptimizerKind::adamw;
    p.optimizer.clip_norm = rate.min_lr > 0 ? 0 : 1.5;
    p.optimizer.rate = rate;
    p.dtype = rate.min_lr > 0 ? Dtype::fp32 : Dtype::bf16;
    p.recompute.mode = rate.min_lr > 0 ? RecomputeMode::none : RecomputeMode::selective;
    const ResolvedPlan plan = loaded(p, llama_like(8));
    EXPECT_EQ(back(plan, GetParam().write(plan, {})).plan, p);
  }
}

// Four experts a block, shared by two devices: with tensor parallelism it is said that the plan
// divides each expert too.
TEST_P(TorchtitanForms, SharedExpertsReadBack) {
  Plan p = shared();
  p.ep = 2;
  p.expert_dispatch = ExpertDispatch::alltoall;
  p.tp = 1;
  p.sequence_parallel = false;
  p.zero = 1;
  Model model = llama_like(8);
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      block->experts = 4;
      block->experts_per_token = 2;
    }
  }
  const ResolvedPlan plan = loaded(p, model);
  const ExportedJob job = GetParam().write(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("expert_parallel_degree"));
  EXPECT_EQ(back(plan, job).plan, p);
  p.tp = 2;
  p.sequence_parallel = true;
  for (const int etp : {0, 1}) {  // both divide each expert, or neither does
    p.etp = etp;
    const ResolvedPlan tensor = loaded(p, model);
    const ExportedJob job = GetParam().write(tensor, {});
    const Job read = back(tensor, job);
    // The registry has no word for it: its experts are whole, which is said where they are not.
    const bool whole = GetParam().file == "config_registry.py";
    EXPECT_EQ(testing::Value(names(job.not_carried), Contains("etp")), whole && etp == 0);
    if (whole) p.etp = 1;
    EXPECT_EQ(read.plan, p);
    EXPECT_THAT(names(read.remarks), ElementsAre());
    // DeepEP has a key in 0.2, for whole experts; the registry says it to models that are not
    // written.
    p.expert_dispatch = ExpertDispatch::once;
    const ResolvedPlan deep = loaded(p, model);
    if (!whole && etp == 1) {
      EXPECT_EQ(back(deep, GetParam().write(deep, {})).plan, p);
    } else {
      EXPECT_THAT(complaint([&] { static_cast<void>(GetParam().write(deep, {})); }),
                  HasSubstr(whole ? "expert_dispatch: once: torchtitan's dispatcher"
                                  : "row torchtitan-0.2/dispatch-of-divided-experts"));
    }
    p.expert_dispatch = ExpertDispatch::alltoall;
  }
}

TEST_P(TorchtitanForms, KnowsItsFlavours) {
  Plan p = shared();
  p.vpp = 1;
  p.schedule = "1f1b";
  p.boundaries = {17};
  Model model = decoder_model(*torchtitan_llama3("8B"), 8192);
  const ResolvedPlan plan = loaded(p, model);
  const ExportedJob job = GetParam().write(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr(GetParam().flavor));
  EXPECT_EQ(job.files.size(), 1U);  // PyTorch has a 1F1B of its own
  EXPECT_THAT(names(job.not_carried), ElementsAre("compile", "data"));
  EXPECT_EQ(read_torchtitan_job(job.files.front().text, "job.toml", {}).plan, p);
  // Its sizes with other rotary angles are a flavour of the files' own.
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->angles = {500000};
  }
  const ExportedJob turned = GetParam().write(loaded(p, model), {});
  EXPECT_THAT(names(turned.not_carried), ElementsAre("compile", "data"));
  EXPECT_THAT(turned.files.front().text, HasSubstr("\"weir\""));
}

// Llama 2 7B is no flavour of torchtitan's: the files register one of its sizes, in the registry or
// in a module that the TOML imports. A feed-forward of 11008 is one multiple wide: half of it over
// 8/3 4096 is 0.50390625.
TEST_P(TorchtitanForms, OwnSizesAreAFlavourOfTheFiles) {
  Plan p = shared();
  p.vpp = 1;
  p.schedule = "1f1b";
  p.boundaries = {17};
  Decoder d = *torchtitan_llama3("8B");
  d.embedding.vocabulary = d.head.vocabulary = 32000;
  d.block.kv_heads = 32;
  d.block.ffn = 11008;
  d.block.angles = {.theta = 10000};
  const ResolvedPlan plan = loaded(p, decoder_model(d, 4096));
  const ExportedJob job = GetParam().write(plan, {});
  EXPECT_THAT(names(job.not_carried), ElementsAre("compile", "data"));
  EXPECT_EQ(back(plan, job).plan, p);
  if (GetParam().file == "config_registry.py") {
    EXPECT_THAT(job.files.front().text,
                AllOf(HasSubstr("llama3.llama3_configs[\"weir\"]"), HasSubstr("hidden_dim=11008,"),
                      HasSubstr("scaling=\"none\"")));
  } else {
    ASSERT_EQ(job.files.size(), 2U);
    EXPECT_THAT(job.files.front().text, HasSubstr("custom_import = \"weir_flavor\""));
    EXPECT_EQ(job.files[1].name, "weir_flavor.py");
    EXPECT_THAT(job.files[1].text,
                AllOf(HasSubstr("multiple_of=11008,"), HasSubstr("ffn_dim_multiplier=0.50390625,"),
                      HasSubstr("scaling_factor=1.0,")));
    EXPECT_THAT(job.launch, testing::StartsWith("PYTHONPATH=. torchrun"));
  }
}

// One rank accumulates its micro-batches without a pipeline: G = 3 * 4 * 4 samples, 3 at a time on
// each of 4 replicas.
TEST_P(TorchtitanForms, OneRankAccumulates) {
  Plan p = shared();
  p.pp = p.vpp = 1;
  p.boundaries.clear();
  p.schedule = "1f1b";
  p.zero = 2;
  const ResolvedPlan plan = loaded(p, llama_like(2));
  EXPECT_EQ(back(plan, GetParam().write(plan, {})).plan, p);
}

TEST(TorchtitanExport, TheRegistryHasNoWordForEverySecondBlock) {
  Plan p = example();
  p.recompute = parse_recompute_word("3,5,7-8").value();
  const ResolvedPlan plan = loaded(p, llama_like(8));
  const ExportedJob job = export_torchtitan_registry(plan, {});
  EXPECT_THAT(names(job.not_carried), Contains("recompute"));
  EXPECT_EQ(back(plan, job).plan.recompute, (Recompute{RecomputeMode::full}));
}

TEST(TorchtitanExport, SaysWhatIsAlwaysSharedThere) {
  Plan p = example();
  p.zero = 2;
  p.overlap_param_gather = true;
  p.recompute = {.mode = RecomputeMode::selective};
  EXPECT_THAT(names(export_torchtitan_toml(loaded(p, llama_like(8)), {}).not_carried),
              ElementsAre("model", "attention", "sequence_parallel", "overlap_grad_reduce",
                          "overlap_param_gather", "zero", "recompute", "compile", "data"));
  p.recompute = {};
  EXPECT_THAT(names(export_torch(loaded(p, llama_like(8)), {}).not_carried), Contains("zero"));
}

TEST(TorchtitanExport, AVIsPlacedByNameOnly) {
  Plan p = example();
  p.boundaries = {3, 5, 7};
  p.schedule = "v-half";
  p.zero = 1;
  const ExportOptions allowed{.allowed = {.other_schedule = true}};
  EXPECT_THROW(static_cast<void>(export_torchtitan_toml(loaded(p, llama_like(8)), {})), InputError);
  const ExportedJob job = export_torchtitan_toml(loaded(p, llama_like(8)), allowed);
  EXPECT_THAT(job.files.front().text, HasSubstr("pipeline_parallel_schedule = \"ZBVZeroBubble\""));
  EXPECT_THAT(names(job.not_carried), testing::Contains("schedule"));
}

}  // namespace
}  // namespace weir::torchtitan_export_test

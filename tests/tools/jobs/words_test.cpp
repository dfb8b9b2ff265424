// Each word of a plan by each exporter: written and read back equal, refused by its name, or said.
// None goes out without it in silence.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/plan_json.hpp"
#include "plan/job/recompute.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/words/cuda_graphs.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::words_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// What an exporter makes of a word: text that it writes, "^text" that it leaves out where it
// otherwise writes it, "!row" that refuses it, or "~" where it says that another thing runs.
struct Word {
  std::string_view title, key;
  void (*say)(Plan& plan);
  const char *megatron, *registry, *toml, *torch, *deepspeed;
  bool experts = false;
};

Recompute rebuilt(std::string_view word) { return parse_recompute_word(std::string(word)).value(); }
void rows(Plan& plan, RowsOf rows) { plan.lengths = {{16, 64, 128}, rows}; }

constexpr std::array<Word, 32> kWords{{
    {"TheAttentionCore", "recompute", [](Plan& p) { p.recompute = rebuilt("selective"); },
     "--recompute-activations", "SelectiveAC.Config()", "mode = \"selective\"",
     "!torch/recompute-modules", "!deepspeed/recompute-modules"},
    {"ModulesThatAreRebuilt", "recompute",
     [](Plan& p) { p.recompute = rebuilt("selective:layernorm+mlp"); },
     "--recompute-modules layernorm mlp", "!torchtitan/recompute-modules",
     "!torchtitan-0.2/recompute-modules", "!torch/recompute-modules",
     "!deepspeed/recompute-modules"},
    {"ModulesOfExperts", "recompute",
     [](Plan& p) { p.recompute = rebuilt("selective:core_attn+moe_act"); },
     "--recompute-modules core_attn moe_act", "!torchtitan/recompute-modules",
     "!torchtitan-0.2/recompute-modules", "!torch/recompute-modules",
     "!deepspeed/recompute-modules", true},
    {"ModulesOfSharedExperts", "recompute",
     [](Plan& p) { p.recompute = rebuilt("selective:shared_experts"); },
     "--recompute-modules shared_experts", "!torchtitan/recompute-modules",
     "!torchtitan-0.2/recompute-modules", "!torch/recompute-modules",
     "!deepspeed/recompute-modules", true},
    {"OverlappedTensorParallelism", "overlap_tensor_parallel",
     [](Plan& p) {
       p.tp = 2;
       p.sequence_parallel = p.overlap_tensor_parallel = true;
     },
     "--tp-comm-overlap", "enable_async_tensor_parallel=True",
     "enable_async_tensor_parallel = true", "!torch/overlapped-tensor-parallelism",
     "!deepspeed/overlapped-tensor-parallelism"},
    {"OverlappedExperts", "overlap_experts", [](Plan& p) { p.overlap_experts = true; },
     "--overlap-moe-expert-parallel-comm", "!torchtitan/overlapped-experts",
     "!torchtitan-0.2/overlapped-experts", "!torch/overlapped-experts",
     "!deepspeed/overlapped-experts", true},
    {"OverlappedGathers", "overlap_param_gather", [](Plan& p) { p.overlap_param_gather = true; },
     "--overlap-param-gather", "~", "~", "~", "~"},
    {"DispatchByDeepEP", "expert_dispatch",
     [](Plan& p) { p.expert_dispatch = ExpertDispatch::once; }, "--moe-token-dispatcher-type flex",
     "!torchtitan/dispatch", "expert_parallel_comm_backend = \"deepep\"", "!torch/dispatch",
     "!deepspeed/dispatch", true},
    {"DispatchToAll", "expert_dispatch",
     [](Plan& p) { p.expert_dispatch = ExpertDispatch::allgather; },
     "--moe-token-dispatcher-type allgather", "!torchtitan/dispatch", "!torchtitan-0.2/dispatch",
     "!torch/dispatch", "!deepspeed/dispatch", true},
    {"TensorwiseFp8", "fp8", [](Plan& p) { p.fp8 = Fp8Recipe::tensorwise; },
     "--fp8-recipe tensorwise", "Float8LinearConverter.Config", "quantize.linear.float8",
     "!torch/fp8", "!deepspeed/fp8"},
    {"DelayedFp8", "fp8", [](Plan& p) { p.fp8 = Fp8Recipe::delayed; }, "--fp8-recipe delayed",
     "!torchtitan/fp8", "!torchtitan-0.2/fp8", "!torch/fp8", "!deepspeed/fp8"},
    {"BlockwiseFp8", "fp8", [](Plan& p) { p.fp8 = Fp8Recipe::blockwise; }, "--fp8-recipe blockwise",
     "!torchtitan/fp8", "!torchtitan-0.2/fp8", "!torch/fp8", "!deepspeed/fp8"},
    {"Mxfp8", "fp8", [](Plan& p) { p.fp8 = Fp8Recipe::mxfp8; }, "--fp8-recipe mxfp8",
     "MXFP8LinearConverter.Config", "quantize.linear.mx", "!torch/fp8", "!deepspeed/fp8"},
    {"Fp8Parameters", "fp8_parameters",
     [](Plan& p) {
       p.fp8 = Fp8Recipe::tensorwise;
       p.fp8_parameters = true;
     },
     "--fp8-param-gather", "!torchtitan/fp8-parameters", "enable_fsdp_float8_all_gather = true",
     "!torch/fp8", "!deepspeed/fp8"},
    {"Adapters", "lora",
     [](Plan& p) {
       p.lora = {8, parse_products("linear_qkv+linear_fc2").value(), 0};
     },
     "!megatron/adapters", "LoRAConverter.Config(rank=8", "!torchtitan-0.2/adapters",
     "!torch/adapters", "!deepspeed/adapters"},
    {"FrozenLayers", "frozen",
     [](Plan& p) {
       p.frozen = {{0, 4}};
     },
     "!megatron/frozen-layers", "!torchtitan/frozen-layers", "!torchtitan-0.2/frozen-layers",
     "!torch/frozen-layers", "!deepspeed/frozen-layers"},
    {"TheHostsOptimizer", "offload_optimizer", [](Plan& p) { p.offload_optimizer = 1; },
     "--optimizer-offload-fraction 1.0", "!torchtitan/offload", "!torchtitan-0.2/offload",
     "!torch/offload", "\"offload_optimizer\""},
    {"HalfTheHostsOptimizer", "offload_optimizer", [](Plan& p) { p.offload_optimizer = 0.5; },
     "--optimizer-offload-fraction 0.5", "!torchtitan/offload", "!torchtitan-0.2/offload",
     "!torch/offload", "!deepspeed/offload-part"},
    {"TheHostsActivations", "offload_activations", [](Plan& p) { p.offload_activations = 0.25; },
     "--fine-grained-activation-offloading", "!torchtitan/offload-activations",
     "!torchtitan-0.2/offload-activations", "!torch/offload-activations",
     "!deepspeed/offload-activations"},
    {"TheHostsCheckpoints", "offload_activations",
     [](Plan& p) {
       p.recompute = rebuilt("full");
       p.offload_activations = 1;
     },
     "!megatron/offload-rebuilt", "!torchtitan/offload-activations",
     "!torchtitan-0.2/offload-activations", "!torch/offload-activations",
     "\"cpu_checkpointing\": true"},
    {"Prediction", "prediction_layers", [](Plan& p) { p.prediction_layers = 1; },
     "--mtp-num-layers 1", "!torchtitan/prediction", "!torchtitan-0.2/prediction",
     "!torch/prediction", "!deepspeed/prediction"},
    {"PredictionsWeight", "prediction_weight",
     [](Plan& p) {
       p.prediction_layers = 1;
       p.prediction_weight = 0.3;
     },
     "--mtp-loss-scaling-factor 0.3", "!torchtitan/prediction", "!torchtitan-0.2/prediction",
     "!torch/prediction", "!deepspeed/prediction"},
    {"Groups", "zero_shards", [](Plan& p) { p.zero_shards = 2; },
     "--num-distributed-optimizer-instances 2", "data_parallel_replicate_degree=2",
     "data_parallel_replicate_degree = 2", "!torch/groups", "!deepspeed/groups"},
    {"SecondShards", "zero_secondary",
     [](Plan& p) {
       p.zero = 3;
       p.zero_secondary = 2;
     },
     "!megatron/second-shards", "!torchtitan/second-shards", "!torchtitan-0.2/second-shards",
     "!torch/second-shards", "!deepspeed/second-shards"},
    {"Muon", "optimizer",
     [](Plan& p) {
       p.optimizer.kind = OptimizerKind::muon;
       p.optimizer.momentum = 0.9;
     },
     "--optimizer muon", "!torchtitan/muon", "!torchtitan-0.2/muon", "!torch/muon",
     "!deepspeed/muon"},
    {"PackedRows", "lengths", [](Plan& p) { rows(p, RowsOf::packed); }, "--sft",
     "FirstFitPackingConfig(dataset=", "!torchtitan-0.2/rows", "!torch/rows", "!deepspeed/rows"},
    {"CutRows", "lengths", [](Plan& p) { rows(p, RowsOf::cut); },
     "--dataloader-inter-document-masking", "ConcatThenSplitPackingConfig(dataset=",
     "!torchtitan-0.2/rows", "!torch/rows", "!deepspeed/rows"},
    {"RowsAsLongAsTheLongest", "lengths", [](Plan& p) { rows(p, RowsOf::longest); },
     "!megatron/longest-rows", "!torchtitan/longest-rows", "!torchtitan-0.2/rows", "!torch/rows",
     "!deepspeed/rows"},
    {"DevicesByLength", "lengths",
     [](Plan& p) {
       rows(p, RowsOf::packed);
       p.lengths.dynamic_cp = 64;
     },
     "--hybrid-context-parallel", "!torchtitan/dynamic-groups", "!torchtitan-0.2/rows",
     "!torch/rows", "!deepspeed/rows"},
    // On where nothing is said, there.
    {"GraphsOfSteps", "cuda_graphs", [](Plan& p) { p.cuda_graphs = CudaGraphs::of_step(); },
     "--cuda-graph-impl full_iteration", "^disable_cuda_graphs", "!torchtitan-0.2/graphs",
     "!torch/graphs", "!deepspeed/graphs"},
    {"GraphsOfBlocks", "cuda_graphs", [](Plan& p) { p.cuda_graphs = CudaGraphs::of_blocks(); },
     "--cuda-graph-impl transformer_engine", "!torchtitan/graphs-of-parts",
     "!torchtitan-0.2/graphs", "!torch/graphs", "!deepspeed/graphs"},
    {"GraphsOfParts", "cuda_graphs",
     [](Plan& p) { p.cuda_graphs = parse_cuda_graphs("attn+mlp").value(); },
     "--cuda-graph-modules attn mlp", "!torchtitan/graphs-of-parts", "!torchtitan-0.2/graphs",
     "!torch/graphs", "!deepspeed/graphs"},
}};

// Of eight blocks on four replicas, which share what ZeRO 1 does: what every trainer has.
Plan usual(const Word& word) {
  Plan plan;
  plan.seq_length = 128;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.schedule = "1f1b";
  plan.microbatches = 4;
  plan.dp = 4;
  plan.zero = 1;
  plan.overlap_grad_reduce = true;
  plan.optimizer.learning_rate = 3e-4;
  if (!word.experts) return plan;
  plan.ep = 2;
  plan.expert_dispatch = ExpertDispatch::alltoall;
  return plan;
}
Model model_of(const Word& word) {
  Model model = llama_like(8);
  if (!word.experts) return model;
  for (Layer& layer : model.layers) {
    auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    block->experts = 8;
    block->experts_per_token = 2;
  }
  return model;
}
ResolvedPlan without(const Word& word) { return loaded(usual(word), model_of(word)); }
ResolvedPlan with(const Word& word) {
  Plan plan = usual(word);
  word.say(plan);
  return loaded(std::move(plan), model_of(word));
}

using Read = Job (*)(const std::string& text, const std::string& file, const JobOptions& options);

// A job's file, with what the user says where no job can: how long sequences are, and, beside
// DeepSpeed's, what the script rebuilds.
Plan read_back(Read read, const ExportedFile& file, const ResolvedPlan& plan) {
  const GivenFields given{.lengths = {plan.plan.lengths.quantiles}};
  JobOptions options{.gpus = plan.plan.devices(), .model = &plan.model};
  if (read == &read_deepspeed_job) options.given.recompute = plan.plan.recompute;
  Job job = read(file.text, file.name, options);
  take_lengths(given, file.name, job);
  return job.plan;
}
// What it has otherwise than the plan.
std::vector<std::string> differences(const Plan& again, const Plan& plan) {
  std::vector<Remark> remarks;
  remark_differences(again, plan, remarks);
  return names(remarks);
}

struct Exporter {
  ExportedJob (*write)(const ResolvedPlan&, const ExportOptions&);
  Read read;  // none reads PyTorch's script
  const char* Word::*cell;
};
constexpr std::array<Exporter, 5> kExporters{
    {{&export_megatron, &read_megatron_job, &Word::megatron},
     {&export_torchtitan_registry, &read_torchtitan_job, &Word::registry},
     {&export_torchtitan_toml, &read_torchtitan_job, &Word::toml},
     {&export_torch, nullptr, &Word::torch},
     {&export_deepspeed, &read_deepspeed_job, &Word::deepspeed}}};

class Words : public testing::TestWithParam<Word> {};
INSTANTIATE_TEST_SUITE_P(All, Words, testing::ValuesIn(kWords),
                         [](const auto& info) { return std::string(info.param.title); });

TEST_P(Words, AreWrittenOrRefused) {
  const Word& word = GetParam();
  const ResolvedPlan plan = with(word);
  for (const Exporter& exporter : kExporters) {
    const std::string cell = word.*exporter.cell;
    if (cell.front() == '!') {
      EXPECT_THAT(complaint([&] { static_cast<void>(exporter.write(plan, {})); }),
                  AllOf(HasSubstr(fmt::format("plan: {}", word.key.substr(0, word.key.find('_')))),
                        HasSubstr(fmt::format("(row {})", cell.substr(1)))));
      continue;
    }
    const ExportedJob job = exporter.write(plan, {});
    if (cell == "~") {
      EXPECT_THAT(names(job.not_carried), Contains(std::string(word.key)));
      continue;
    }
    const ExportedFile& file = job.files.front();
    const std::string other = exporter.write(without(word), {}).files.front().text;
    const bool left_out = cell.front() == '^';
    const std::string text = left_out ? cell.substr(1) : cell;
    EXPECT_THAT(left_out ? other : file.text, HasSubstr(text));
    EXPECT_THAT(left_out ? file.text : other, Not(HasSubstr(text)));
    ASSERT_NE(exporter.read, nullptr);
    EXPECT_THAT(differences(read_back(exporter.read, file, plan), plan.plan),
                Not(Contains(std::string(word.key))))
        << file.text;
  }
}

// Whether a plan file could say this plan.
bool can_be(Plan plan) {
  plan.model_path = "model.json";
  plan.model_sha256 = std::string(64, '0');
  try {
    static_cast<void>(parse_plan(plan_json(plan).dump(), "plan"));
  } catch (const InputError&) {
    return false;
  }
  return true;
}

// Any two words in one plan that can be: written, so that they read back or are said, or refused by
// a row. What one word asks for may be what the other excludes.
TEST(PairsOfWords, AreWrittenOrRefused) {
  int read = 0, refused = 0;
  for (const Word& one : kWords) {
    for (const Word& other : kWords) {
      if (&one == &other) continue;
      const Word& model = one.experts ? one : other;
      Plan both = usual(model);
      one.say(both);
      other.say(both);
      const ResolvedPlan plan = loaded(both, model_of(model));
      if (!can_be(both)) continue;
      for (const Exporter& exporter : kExporters) {
        if (exporter.read == nullptr) continue;
        SCOPED_TRACE(fmt::format("{} and {}", one.title, other.title));
        ExportedJob job;
        try {
          job = exporter.write(plan, {});
        } catch (const InputError& why) {
          EXPECT_THAT(why.what(), HasSubstr("(row "));
          ++refused;
          continue;
        }
        const std::vector<std::string> said = names(job.not_carried);
        for (const std::string& key :
             differences(read_back(exporter.read, job.files.front(), plan), plan.plan)) {
          EXPECT_THAT(said, Contains(key)) << job.files.front().text;
        }
        ++read;
      }
    }
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 500);
}

// The script of a job without the word becomes one with it, and back.
TEST_P(Words, ArePatchedOrRefused) {
  const Word& word = GetParam();
  const ResolvedPlan plain = without(word), plan = with(word);
  const auto patched = [](const ResolvedPlan& from, const ResolvedPlan& to) {
    const PatchedScript script{.text = export_megatron(from, {}).files.front().text,
                               .file = "train.sh"};
    const Patch patch = patch_megatron(to, script);
    EXPECT_THAT(names(patch.not_edited), testing::ElementsAre());
    return ExportedFile{"train.sh", patch.text};
  };
  const std::string cell = word.megatron;
  if (cell.front() == '!') {
    EXPECT_THAT(complaint([&] { static_cast<void>(patched(plain, plan)); }),
                HasSubstr(fmt::format("(row {})", cell.substr(1))));
    return;
  }
  const ExportedFile there = patched(plain, plan);
  // Rows are the data's: the script's own stay, and it is said.
  if (word.key == "lengths") {
    EXPECT_THAT(there.text, Not(HasSubstr(cell)));
    return;
  }
  EXPECT_THAT(there.text, HasSubstr(cell));
  EXPECT_THAT(differences(read_back(&read_megatron_job, there, plan), plan.plan),
              testing::ElementsAre())
      << there.text;
  // An overlap that the plan has not stays the script's.
  if (word.key == "overlap_param_gather") return;
  const ExportedFile back = patched(plan, plain);
  EXPECT_THAT(differences(read_back(&read_megatron_job, back, plain), plain.plan),
              testing::ElementsAre())
      << back.text;
}

// Routing within groups of experts, a model's word, is Megatron's alone.
TEST(ModelWords, NodeLimitedRouting) {
  const Word experts{.title = "", .key = "", .say = nullptr, .experts = true};
  Model model = model_of(experts);
  for (Layer& layer : model.layers) {
    auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    block->expert_groups = 4;
    block->groups_per_token = 2;
  }
  const ResolvedPlan plan = loaded(usual(experts), model);
  const ExportedFile script = export_megatron(plan, {}).files.front();
  EXPECT_THAT(script.text, AllOf(HasSubstr("--moe-router-num-groups 4 "),
                                 HasSubstr("--moe-router-group-topk 2 ")));
  const Job read = read_megatron_job(script.text, script.name, {.gpus = 4});
  EXPECT_EQ(to_layer_list(read.model), to_layer_list(plan.model));
  for (const auto write : {&export_torchtitan_registry, &export_torchtitan_toml}) {
    EXPECT_THAT(complaint([&] { static_cast<void>(write(plan, {})); }),
                HasSubstr("layers: experts that are chosen by groups cannot be exported"));
  }
}

}  // namespace
}  // namespace weir::words_test

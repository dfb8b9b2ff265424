// Scripts edited where they stand: each value at the place that it comes from, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"
#include "tools/jobs/shell/edit.hpp"
#include "tools/jobs/shell/unified_diff.hpp"

namespace weir::script_edit_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// As people have them: variables, an array, a condition, parameters, comments and Slurm's lines.
constexpr const char* kScript =
    "#!/bin/bash\n"
    "#SBATCH --job-name=mine\n"
    "# TP=16 was too slow\n"
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "source ./site.sh\n"
    "GPUS_PER_NODE=8\n"
    "TP=8\n"
    "PP=${PP:-1}\n"
    "DP=$((GPUS_PER_NODE / (TP * PP)))\n"
    "ARGS=(\n"
    "  --num-layers 8 --hidden-size 64 --num-attention-heads 8\n"
    "  --tensor-model-parallel-size $TP\n"
    "  # --context-parallel-size 2\n"
    "  --pipeline-model-parallel-size ${PP}\n"
    "  --use-distributed-optimizer\n"
    "  --overlap-grad-reduce\n"
    "  --overlap-param-gather\n"
    ")\n"
    "if [ \"$TP\" -gt 1 ]; then ARGS+=(--sequence-parallel); fi\n"
    "srun torchrun --nproc_per_node $GPUS_PER_NODE --nnodes 1 pretrain_gpt.py \"${ARGS[@]}\" \\\n"
    "  --seq-length 128 --max-position-embeddings 128 --vocab-size 1024 \\\n"
    "  --micro-batch-size 1 --global-batch-size 8 \\\n"
    "  --bf16 \\\n"
    "  --save \"$1\"\n";

Job job_of(const std::string& script) { return read_megatron_job(script, "train.sh", {}); }

Patch patched(const std::function<void(Plan&)>& change, const std::string& script = kScript) {
  Job job = job_of(script);
  change(job.plan);
  return patch_megatron(loaded(job.plan, job.model), {script, "train.sh"});
}

// All of what is not about the change stays.
std::string expected(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string text = kScript;
  for (const auto& [before, after] : changes) {
    EXPECT_NE(text.find(before), text.npos) << before;
    text.replace(text.find(before), before.size(), after);
  }
  return text;
}

TEST(ScriptEdit, NothingToChange) {
  const Patch patch = patched([](Plan&) {});
  EXPECT_EQ(patch.text, kScript);
  EXPECT_EQ(patch.difference, "");
  EXPECT_THAT(patch.changes, IsEmpty());
}

// Megatron-DeepSpeed's zero bubble: a script that asks for it has a Megatron that runs it, so other
// batches of that order are written, and an order that it does not ask for is not.
TEST(ScriptEdit, AnOrderOfTheScriptsOwnStays) {
  const std::string script =
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\ndeepspeed --num_gpus 4 pretrain_gpt.py --deepspeed "
      "--enable-zbh1-pipeline --num-layers 8 --hidden-size 64 --num-attention-heads 8 "
      "--seq-length 128 --max-position-embeddings 128 --vocab-size 1024 --micro-batch-size 1 "
      "--global-batch-size 8 --pipeline-model-parallel-size 4 --fp16\n";
  EXPECT_EQ(patched([](Plan&) {}, script).difference, "");
  const Patch more = patched([](Plan& plan) { plan.microbatches = 16; }, script);
  EXPECT_THAT(more.text, HasSubstr("--global-batch-size 16"));
  EXPECT_THAT(names(more.remarks), testing::Not(Contains("schedule")));
  EXPECT_THROW(static_cast<void>(patched([](Plan& plan) { plan.schedule = "zb-h2"; }, script)),
               InputError);
}

// A forecast's lengths change no data of the script's: --sft would read other files by another
// tokenizer.
TEST(ScriptEdit, TheScriptsDataDecideItsRows) {
  for (const RowsOf rows : {RowsOf::packed, RowsOf::cut}) {
    const Patch patch = patched([&](Plan& plan) { plan.lengths = {{16, 64, 128}, rows}; });
    EXPECT_EQ(patch.text, kScript);
    EXPECT_TRUE(std::ranges::any_of(patch.remarks, [](const Remark& remark) {
      return remark.name == "lengths" && remark.text.starts_with("rows: the script's own data");
    }));
  }
  std::string packed = kScript;
  packed.replace(packed.find("--bf16"), 6, "--bf16 --sft");
  const Patch same = patched(
      [](Plan& plan) {
        plan.lengths = {{16, 64, 128}, RowsOf::packed};
      },
      packed);
  EXPECT_EQ(same.text, packed);
  EXPECT_TRUE(std::ranges::none_of(
      same.remarks, [](const Remark& remark) { return remark.text.starts_with("rows: "); }));
}

// Muon's own words are the plan's; what Megatron asserts Adam of goes with it.
TEST(ScriptEdit, MuonComesAndChanges) {
  std::string script = kScript;
  script.replace(script.find("--bf16"), 6, "--bf16 --use-precision-aware-optimizer");
  const auto muon = [](double momentum, int steps) {
    return [=](Plan& plan) {
      plan.optimizer.kind = OptimizerKind::muon;
      plan.optimizer.momentum = momentum;
      plan.optimizer.newton_schulz = steps;
    };
  };
  const Patch patch = patched(muon(0.95, 5), script);
  EXPECT_THAT(patch.text, AllOf(HasSubstr("--optimizer muon"), HasSubstr("--muon-momentum 0.95"),
                                testing::Not(HasSubstr("precision-aware"))));
  EXPECT_THAT(names(patch.remarks), Contains("use-precision-aware-optimizer"));
  const Patch again = patched(muon(0.9, 7), patch.text);
  EXPECT_THAT(again.text,
              AllOf(HasSubstr("--muon-momentum 0.9"), HasSubstr("--muon-num-ns-steps 7")));
  EXPECT_THAT(names(again.remarks), testing::Not(Contains("optimizer")));
}

// TP 4, D 2 on the same 8 devices: "TP=8" on its line, and no other; the comment, #SBATCH, source,
// srun and "$1" stay.
TEST(ScriptEdit, AVariableChangesWhereItsValueIs) {
  const Patch patch = patched([](Plan& plan) {
    plan.tp = 4;
    plan.dp = 2;
    plan.microbatches = 4;
    plan.zero = 1;
    plan.overlap_grad_reduce = true;
  });
  EXPECT_EQ(patch.text, expected({{"\nTP=8\n", "\nTP=4\n"}}));
  EXPECT_EQ(patch.difference,
            "--- train.sh\n+++ train.sh\n@@ -4,7 +4,7 @@\n export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
            " source ./site.sh\n GPUS_PER_NODE=8\n-TP=8\n+TP=4\n PP=${PP:-1}\n"
            " DP=$((GPUS_PER_NODE / (TP * PP)))\n ARGS=(\n");
  EXPECT_THAT(patch.not_edited, IsEmpty());
}

// The default of "${PP:-1}" is the value; a new argument stands behind the one that it is of.
TEST(ScriptEdit, DefaultsChangeAndArgumentsAreAdded) {
  const Patch patch = patched([](Plan& plan) {
    plan.tp = 4;
    plan.pp = 2;
    plan.vpp = 2;
    plan.boundaries = {3, 5, 7};
    plan.schedule = "interleaved-1f1b";
  });
  EXPECT_EQ(
      patch.text,
      expected({{"\nTP=8\n", "\nTP=4\n"},
                {"${PP:-1}", "${PP:-2}"},
                {"size ${PP}\n", "size ${PP}\n  --num-layers-per-virtual-pipeline-stage 2\n"}}));
  EXPECT_EQ(job_of(patch.text).plan.vpp, 2);
}

// Without ZeRO there is no gather to overlap: both flags go, on their lines; the reduction's stays,
// which is said.
TEST(ScriptEdit, FlagsGoTogether) {
  const Patch patch = patched([](Plan& plan) {
    plan.tp = 4;
    plan.dp = 2;
    plan.microbatches = 4;
    plan.zero = 0;
    plan.overlap_grad_reduce = false;
  });
  EXPECT_EQ(patch.text, expected({{"\nTP=8\n", "\nTP=4\n"},
                                  {"  --use-distributed-optimizer\n", ""},
                                  {"  --overlap-param-gather\n", ""}}));
  EXPECT_THAT(names(patch.remarks),
              AllOf(Contains("overlap-param-gather"), Contains("overlap_grad_reduce")));
}

// A script that starts fewer devices than its own degrees need: the nodes follow the plan.
TEST(ScriptEdit, NodesAreThoseOfThePlan) {
  std::string script = kScript;
  script.replace(script.find("PP=${PP:-1}"), 11, "PP=${PP:-2}");
  const JobOptions asked{.gpus = 16};
  const Job job = read_megatron_job(script, "train.sh", asked);
  const Patch patch = patch_megatron(loaded(job.plan, job.model),
                                     {.text = script, .file = "train.sh", .options = asked});
  EXPECT_THAT(patch.text, HasSubstr("--nproc_per_node $GPUS_PER_NODE --nnodes 2 "));
  EXPECT_THAT(patch.not_edited, IsEmpty());
}

// What the script unsets is set there, and not before, where it would be unset again.
TEST(ScriptEdit, AnUnsetVariableIsSetInItsPlace) {
  EXPECT_EQ(with_variable("cd x\nunset A # as FSDP needs\nrun\n", "A", "1"),
            "cd x\nexport A=1 # as FSDP needs\nrun\n");
  EXPECT_EQ(with_variable("unset AB\nrun\n", "A", "1"), "export A=1\nunset AB\nrun\n");
}

// FSDP: its checkpoints, its strategy, and the variable unset where it is set.
TEST(ScriptEdit, TheEnvironmentIsEdited) {
  const Patch patch = patched([](Plan& plan) {
    plan.tp = 1;
    plan.sequence_parallel = false;
    plan.dp = 8;
    plan.microbatches = 1;
    plan.zero = 3;
    plan.overlap_grad_reduce = true;
  });
  EXPECT_THAT(patch.text, AllOf(HasSubstr("\nunset CUDA_DEVICE_MAX_CONNECTIONS\nsource"),
                                HasSubstr("--ckpt-format fsdp_dtensor"),
                                HasSubstr("--data-parallel-sharding-strategy optim_grads_params"),
                                HasSubstr("--use-megatron-fsdp")));
  EXPECT_EQ(job_of(patch.text).plan.zero, 3);
  // And set where tensor parallelism needs it and the script does not say it.
  const std::string bare = expected({{"export CUDA_DEVICE_MAX_CONNECTIONS=1\n", ""}});
  EXPECT_THAT(patched([](Plan&) {}, bare).text,
              HasSubstr("\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\nsource ./site.sh\n"));
}

// Activations with the host come and go with all that says them, and the environment with them.
TEST(ScriptEdit, ActivationsWithTheHostArePatched) {
  const Patch patch = patched([](Plan& plan) { plan.offload_activations = 0.2; });
  EXPECT_THAT(patch.text, AllOf(HasSubstr("\nexport NVTE_CPU_OFFLOAD_V1=1\n"),
                                HasSubstr("--fine-grained-activation-offloading"),
                                HasSubstr("--activation-offload-fraction ")));
  EXPECT_NEAR(job_of(patch.text).plan.offload_activations, 0.2, 1e-5);
  EXPECT_THAT(patch.not_edited, IsEmpty());
  // Arguments alone have no environment: it is said.
  const Patch bare =
      patched([](Plan& plan) { plan.offload_activations = 0.2; },
              "--num-layers 8 --hidden-size 64 --num-attention-heads 8 --seq-length 128\n"
              "--max-position-embeddings 128 --vocab-size 1024 --micro-batch-size 1\n"
              "--global-batch-size 8 --bf16\n");
  EXPECT_THAT(names(bare.not_edited), Contains("NVTE_CPU_OFFLOAD_V1"));
  const Patch back = patched([](Plan& plan) { plan.offload_activations = 0; }, patch.text);
  EXPECT_EQ(back.text.find("--offload-modules"), std::string::npos);
  EXPECT_EQ(job_of(back.text).plan.offload_activations, 0);
  // Layers of one stage: what Megatron refuses beside a pipeline goes, and that is said.
  const std::string layers =
      expected({{"--bf16 \\\n", "--bf16 --cpu-offloading-num-layers 2 \\\n"}});
  EXPECT_EQ(job_of(layers).plan.offload_activations, 0.25);
  const Patch stages = patched(
      [](Plan& plan) {
        plan.tp = 4;
        plan.pp = 2;
        plan.boundaries = {5};
      },
      layers);
  EXPECT_EQ(stages.text.find("cpu-offloading"), std::string::npos);
  EXPECT_THAT(names(stages.remarks),
              AllOf(Contains("cpu-offloading-num-layers"), Contains("offload_activations")));
}

std::string overlapped_shared_experts() {
  return expected({{"TP=8\n", "TP=1\n"},
                   {"--bf16 \\\n",
                    "--bf16 --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 64 "
                    "--expert-model-parallel-size 8 --moe-token-dispatcher-type alltoall "
                    "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-overlap \\\n"}});
}

// Experts' exchanges beside other work exclude that of shared experts, and need queues.
TEST(ScriptEdit, OverlappedExpertsArePatched) {
  const Patch patch =
      patched([](Plan& plan) { plan.overlap_experts = true; }, overlapped_shared_experts());
  EXPECT_THAT(patch.text, AllOf(HasSubstr("--overlap-moe-expert-parallel-comm"),
                                HasSubstr("\nexport CUDA_DEVICE_MAX_CONNECTIONS=32\n")));
  EXPECT_EQ(patch.text.find("--moe-shared-expert-overlap"), std::string::npos);
  EXPECT_THAT(names(patch.remarks), Contains("moe-shared-expert-overlap"));
}

// Megatron-Core has no shared experts that are made again beside exchanges
// (core/transformer/transformer_config.py:1991 @d98e8a64ddf3).
TEST(ScriptEdit, SharedExpertsThatAreMadeAgainOverlapNothing) {
  const Patch patch = patched(
      [](Plan& plan) {
        plan.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::shared_experts};
      },
      overlapped_shared_experts());
  EXPECT_THAT(patch.text, HasSubstr("--recompute-modules shared_experts"));
  EXPECT_EQ(patch.text.find("--moe-shared-expert-overlap"), std::string::npos);
  EXPECT_THAT(names(patch.remarks), Contains("moe-shared-expert-overlap"));
}

// A batch that is computed from what changes is put right, and so is a flag that hung on it.
TEST(ScriptEdit, WhatIsMadeOfAVariableFollows) {
  const std::string script = expected({{"size 8 \\\n  --bf16", "size $((DP * 8)) \\\n  --bf16"}});
  const Patch patch = patched(
      [](Plan& plan) {
        plan.tp = 1;
        plan.sequence_parallel = false;
        plan.dp = 8;
        plan.microbatches = 1;
        plan.zero = 1;
        plan.overlap_grad_reduce = true;
      },
      script);
  const Plan plan = job_of(patch.text).plan;
  EXPECT_THAT(patch.text, HasSubstr("\nTP=1\n"));
  EXPECT_EQ(plan.tp, 1);
  EXPECT_EQ(plan.global_batch_size(), 8);
  EXPECT_THAT(patch.not_edited, IsEmpty());
}

// A value that another file says has no place here, and is named.
TEST(ScriptEdit, WhatHasNoPlaceIsNamed) {
  const std::string script =
      expected({{"\nTP=8\n", "\n"}, {"size $TP\n", "size 1\n"}, {"  --bf16 \\\n", "  $MORE \\\n"}});
  const ShellFiles files = [](const std::string& path) -> std::optional<ShellFile> {
    if (path.find("site.sh") == path.npos) return std::nullopt;
    return ShellFile{"site.sh", "MORE=\"--bf16 --recompute-activations\"\n"};
  };
  const JobOptions options{.files = files};
  Job job = read_megatron_job(script, "train.sh", options);
  ASSERT_EQ(job.plan.recompute.mode, RecomputeMode::selective);
  job.plan.recompute = {};
  const Patch patch = patch_megatron(loaded(job.plan, job.model), {script, "train.sh", options});
  EXPECT_THAT(names(patch.not_edited), ElementsAre("recompute-activations"));
}

// Parts that are launched as graphs, or rebuilt, are words apart: between quotes they would be one
// that Megatron does not know.
TEST(ScriptEdit, NamesOfModulesAreWordsApart) {
  const Patch patch = patched([](Plan& plan) {
    plan.cuda_graphs = parse_cuda_graphs("attn+mlp").value();
    plan.recompute = parse_recompute_word("selective:core_attn+mlp").value();
  });
  EXPECT_THAT(patch.text, AllOf(HasSubstr("--cuda-graph-modules attn mlp"),
                                HasSubstr("--cuda-graph-impl transformer_engine"),
                                HasSubstr("--recompute-modules core_attn mlp")));
  const Plan plan = job_of(patch.text).plan;
  EXPECT_EQ(to_string(plan.cuda_graphs), "attn+mlp");
  EXPECT_EQ(recompute_word(plan.recompute), "selective:core_attn+mlp");
}

// The host's check of losses goes where a step becomes a graph; without one it stays as it is.
TEST(ScriptEdit, AStepsGraphGoesWithoutTheCheck) {
  const auto with = [](const char* word) {
    return [=](Plan& plan) { plan.cuda_graphs = parse_cuda_graphs(word).value(); };
  };
  const std::string step = patched(with("step")).text;
  EXPECT_THAT(step, AllOf(HasSubstr("--cuda-graph-impl full_iteration"),
                          HasSubstr("--no-check-for-nan-in-loss-and-grad")));
  EXPECT_EQ(job_of(step).plan.cuda_graphs, CudaGraphs::of_step());
  EXPECT_THAT(patched(with("none"), step).text,
              AllOf(HasSubstr("--no-check-for-nan-in-loss-and-grad"),
                    testing::Not(HasSubstr("--cuda-graph-impl"))));
}

// A recipe of Megatron's tests is put on a command line by their runner: it starts nothing itself.
TEST(ScriptEdit, ARecipeHasNoLaunchLine) {
  const std::string recipe =
      "ENV_VARS:\n  CUDA_DEVICE_MAX_CONNECTIONS: 1\nMODEL_ARGS:\n  --num-layers: 8\n"
      "  --hidden-size: 64\n  --num-attention-heads: 8\n  --seq-length: 128\n"
      "  --max-position-embeddings: 128\n  --vocab-size: 1024\n  --micro-batch-size: 1\n"
      "  --global-batch-size: 8\n";
  const Patch patch = patched([](Plan&) {}, recipe);
  EXPECT_EQ(edited_megatron(patch, "model_config.yaml").launch, "");
  EXPECT_EQ(edited_megatron(patched([](Plan&) {}), "my train.sh").launch, "bash 'my train.sh'");
}

// The last line of a command that goes takes the backslash before it along.
TEST(ScriptEdit, ALineThatGoesLeavesACommand) {
  const EditedArgument gone{.name = "bf16", .before = ""};
  const std::string text = "run --a 1 \\\n  --bf16\nnext\n";
  EXPECT_EQ(edits_of(text, gone).front().text, "run --a 1\nnext\n");
  EXPECT_EQ(edits_of("run \\\n  --bf16 \\\n  --a 1\n", gone).front().text, "run \\\n  --a 1\n");
  EXPECT_EQ(edits_of("X=(\"--bf16\" --a)\n", gone).front().text, "X=( --a)\n");
  EXPECT_EQ(edits_of("run \\\n  --bf16 --a 1\n", gone).front().text, "run \\\n  --a 1\n");
}

// Two changes seven lines apart share a hunk, eight do not.
TEST(UnifiedDiff, HunksHaveThreeLinesOfContext) {
  std::string before, near, far;
  for (int i = 0; i < 12; ++i) {
    const std::string line = std::to_string(i) + "\n";
    before += line;
    near += i == 1 || i == 8 ? "x\n" : line;
    far += i == 1 || i == 9 ? "x\n" : line;
  }
  const auto hunks = [&](const std::string& after) {
    const std::string diff = unified_diff(before, after, "f");
    int count = 0;
    for (std::size_t at = diff.find("\n@@ "); at != diff.npos; at = diff.find("\n@@ ", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(hunks(near), 1);
  EXPECT_EQ(hunks(far), 2);
  EXPECT_EQ(unified_diff("a\nb", "a\nc\n", "f"),
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n");
}

}  // namespace
}  // namespace weir::script_edit_test

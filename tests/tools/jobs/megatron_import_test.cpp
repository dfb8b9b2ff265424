// Megatron's jobs as plans: small scripts written here with the numbers worked out beside them, and
// the real ones where they are.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tests/tools/jobs/small_job.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/layout/layout.hpp"

namespace weir::megatron_import_test {
namespace {

using small_job::kSmall;
using small_job::megatron;
using testing::ElementsAre;
using testing::HasSubstr;

// Examples of Megatron-LM's own documentation: 16 ranks with 2 chunks, 61 blocks; and 4 ranks with
// 2 chunks, 14 blocks.
TEST(MegatronLayout, ExpandsRepetitions) {
  const MegatronLayout deep = parse_layout("Et*3|(tt|)*29,m|L", "job", "layout");
  EXPECT_EQ(deep.blocks.size(), 32U);
  EXPECT_EQ(deep.blocks.front(), 3);
  EXPECT_EQ(deep.blocks[29], 2);
  EXPECT_EQ(deep.blocks[30], 0);
  EXPECT_EQ(deep.predictions, 1);
  EXPECT_THAT(parse_layout("Ett|(tt|)*6L", "job", "layout").blocks,
              ElementsAre(2, 2, 2, 2, 2, 2, 2, 0));
  EXPECT_EQ(to_layout({.blocks = {3, 4, 2, 0}}), "Et*3|t*4|tt|L");
  for (const char* bad : {"tt|L", "E|tL|t", "E((t))L", "Et*L", "ExL", "E(tL", "Et*99999999L"}) {
    EXPECT_THAT(complaint([&] { static_cast<void>(parse_layout(bad, "job", "layout")); }),
                HasSubstr("job: layout: "))
        << bad;
  }
}

// Megatron-LM's recipes in YAML: a flag that is true is there, one that is false is not; lists are
// words, and what the shell would take for its own is not the shell's.
TEST(MegatronJob, MayBeARecipeInYaml) {
  const std::string recipe =
      "ENV_VARS:\n  --num-layers: 99\n"
      "MODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: 64  # wide\n  \"--num-attention-heads\": "
      "\"4\"\n"
      "  # half of it\n\n  --seq-length: 32\n  --max-position-embeddings: 32\n  --vocab-size: "
      "1000\n"
      "  --micro-batch-size: 1\n  --global-batch-size: 16\n  --bf16: true\n  --fp16: false\n"
      "  --adam-beta1: 0.8\n  --frobnicate:\n    - a\n    - b\n  --pipeline-model-parallel-layout: "
      "Et*3|(tt|)*2tL\n"
      "  --pipeline-model-parallel-size: 4\n"
      "TEST_TYPE: regular\n";
  const Job job = megatron(recipe);
  EXPECT_EQ(job.model.layers.size(), 8U + 3);
  EXPECT_EQ(job.plan.dtype, Dtype::bf16);
  EXPECT_EQ(job.plan.microbatches, 16);
  EXPECT_EQ(job.plan.optimizer.beta1, 0.8);
  EXPECT_THAT(job.plan.boundaries, ElementsAre(4, 6, 8));
  const auto list = std::ranges::find(job.arguments, "frobnicate", &JobArgument::name);
  ASSERT_NE(list, job.arguments.end());
  EXPECT_EQ(list->value, "a b");
  EXPECT_EQ(list->fate, Fate::unknown);
  EXPECT_THAT(complaint([&] {
                static_cast<void>(megatron("MODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: x\n"));
              }),
              HasSubstr("job.args: --hidden-size: expected an integer"));
}

// 8 blocks on 2 ranks with 2 chunks: 2 blocks a stage; the embedding is layer 0, so stages begin at
// 3, 5, 7.
TEST(MegatronJob, StagesOfChunks) {
  const std::string pipeline = kSmall + "--pipeline-model-parallel-size 2 ";
  const Plan plan = megatron(pipeline + "--num-layers-per-virtual-pipeline-stage 2").plan;
  EXPECT_EQ(plan.vpp, 2);
  EXPECT_EQ(plan.schedule, "interleaved-1f1b");
  EXPECT_THAT(plan.boundaries, ElementsAre(3, 5, 7));
  EXPECT_EQ(megatron(pipeline + "--num-virtual-stages-per-pipeline-rank 2").plan.boundaries,
            plan.boundaries);
  EXPECT_EQ(megatron(pipeline + "--pipeline-model-parallel-layout 'Ett|tt|tt|ttL'").plan.boundaries,
            plan.boundaries);
  EXPECT_THAT(megatron(pipeline + "--decoder-first-pipeline-num-layers 3").plan.boundaries,
              ElementsAre(4));
}

// Embedding and loss each stand for a block: (70 + 2) / 12 = 6, so the first stage has 5 blocks and
// the last too.
TEST(MegatronJob, EmbeddingAndLossMayCountAsBlocks) {
  const std::string text =
      "--num-layers 6 --hidden-size 8 --num-attention-heads 2 --seq-length 4 --vocab-size 10 "
      "--micro-batch-size 1 "
      "--global-batch-size 4 --pipeline-model-parallel-size 4 ";
  for (const char* how :
       {"--pp-partition-method 'type:transformer|embedding'",
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"}) {
    EXPECT_THAT(megatron(text + how).plan.boundaries, ElementsAre(2, 4, 6)) << how;
  }
  EXPECT_EQ(complaint([&] { static_cast<void>(megatron(text)); }),
            "job.args: --num-layers: 6 blocks do not divide into 4 equal stages");
}

// 32 devices over tp 2 and pp 4 leave 4 replicas: M = 64 / (2 * 4) = 8.
TEST(MegatronJob, ALaunchScript) {
  const Job job = read_megatron_job(
      "#!/bin/bash\n"
      "export GPUS_PER_NODE=8\n"
      "NODES=${NODES:-4}   # don't count these\n"
      "LAUNCH=(\n  --nproc_per_node $GPUS_PER_NODE\n  --nnodes $NODES\n)\n"
      "MODEL_ARGS=\"--num-layers 8 --hidden-size 64 \\\n  --num-attention-heads 4 --seq-length "
      "32\"\n"
      "TRAIN_ARGS=(\n  --micro-batch-size 2 --global-batch-size 64\n  --bf16   # as trained\n  "
      "--lr 6.0e-5\n"
      "  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4\n"
      "  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n)\n"
      "torchrun ${LAUNCH[@]} pretrain_gpt.py $MODEL_ARGS ${TRAIN_ARGS[@]} \\\n"
      "    --vocab-file $3 --merge-file $4 --frobnicate-attention 3 --log-interval 100\n",
      "train.sh", {});
  EXPECT_EQ(job.plan.dp, 4);
  EXPECT_EQ(job.plan.microbatches, 8);
  EXPECT_EQ(job.plan.dtype, Dtype::bf16);
  EXPECT_EQ(job.plan.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(job.plan.optimizer.learning_rate, 6e-5);
  // GPT-2's 50257 tokens, padded to a multiple of 128 * tp = 256.
  EXPECT_EQ(std::get<EmbeddingShape>(job.model.layers.front().shape).vocabulary, 50432);
  EXPECT_THAT(names(job), HasSubstr("frobnicate-attention "));
  EXPECT_THAT(names(job), testing::Not(HasSubstr("log-interval")));
}

// 32 blocks of 218 112 000 parameters and a norm of 4096, embedding and head of 128 256 * 4096
// each: Llama 3 8B has 8 030 261 248. Without its quoted vocabulary it would be GPT-2's, 7.39e9.
TEST(MegatronJob, QuotedArgumentsInArraysCount) {
  const std::string script =
      "MODEL_ARGS=(\n  --num-layers 32\n  --hidden-size 4096\n  --ffn-hidden-size 14336\n"
      "  --num-attention-heads 32\n  --group-query-attention\n  --num-query-groups 8\n"
      "  --position-embedding-type rope\n  --swiglu\n  --normalization RMSNorm\n"
      "  --disable-bias-linear\n  --untie-embeddings-and-output-weights\n  --seq-length 8192\n)\n"
      "if [[ $DTYPE == fp8 ]]; then\n  MODEL_ARGS+=(\"--fp8-format hybrid\" \"--fp8-frob 3\")\nfi\n"
      "DATA_ARGS_LIST+=(\n  \"--tokenizer-type NullTokenizer\"\n  \"--vocab-size 128256\"\n)\n"
      "PARALLEL=(\n  \"--tensor-model-parallel-size 2\"\n  \"--micro-batch-size 1\"\n"
      "  \"--frobnicate 3\"\n)\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py ${MODEL_ARGS[@]} ${DATA_ARGS_LIST[@]} "
      "${PARALLEL[@]}\n";
  const Job job = read_megatron_job(script, "llama.sh", {});
  EXPECT_EQ(parameter_count(job.model), 8'030'261'248);
  EXPECT_EQ(job.plan.tp, 2);
  EXPECT_EQ(job.plan.dp, 4);
  EXPECT_THAT(names(job), HasSubstr("fp8-format fp8-frob frobnicate "));
}

// What becomes of each argument: the plan says it, it changes nothing, it is near, it is lost, or
// nobody knows.
TEST(MegatronJob, EachArgumentHasItsFate) {
  const Job job = megatron(kSmall +
                           "--lr 1e-4 --log-interval 5 --recompute-activations --recompute-modules "
                           "core_attn mhc --overlap-param-gather-with-optimizer-step "
                           "--overlap-moe-expert-parallel-comm --warp-drive 9");
  const auto fate = [&](const std::string& name) -> std::string {
    for (const JobArgument& argument : job.arguments) {
      if (argument.name == name)
        return argument.value + ": " + std::string(to_string(argument.fate));
    }
    return "none";
  };
  EXPECT_EQ(fate("hidden-size"), "64: carried");
  EXPECT_EQ(fate("log-interval"), "5: no effect");
  EXPECT_EQ(fate("recompute-modules"), "core_attn mhc: changed");
  EXPECT_EQ(fate("overlap-param-gather-with-optimizer-step"), ": not carried");
  EXPECT_EQ(fate("overlap-moe-expert-parallel-comm"), ": changed") << "of dense blocks";
  EXPECT_EQ(fate("warp-drive"), "9: unknown");
}

// 4 nodes of 8 over tp 2 and pp 2: 8 replicas, whoever says so.
TEST(MegatronJob, SlurmAndTheEnvironmentSayTheDevices) {
  const std::string job =
      "pretrain_gpt.py --tensor-model-parallel-size 2 "
      "--pipeline-model-parallel-size 2 " +
      kSmall;
  const auto dp = [](const std::string& text, const ShellEnvironment& environment = {}) {
    JobOptions options;
    options.environment = environment;
    return read_megatron_job(text, "job.sh", options).plan.dp;
  };
  const std::string slurm = "#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\n";
  EXPECT_EQ(dp(slurm + "srun python " + job), 8);
  EXPECT_EQ(dp(slurm + "torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES " + job), 8);
  EXPECT_EQ(dp("torchrun --nproc_per_node 8 --nnodes $NODES " + job, {{"NODES", "4"}}), 8);
  EXPECT_EQ(dp("srun --nodes 4 --ntasks-per-node 8 python " + job), 8);
  EXPECT_EQ(complaint([&] { dp("torchrun --nproc_per_node 3 " + job); }),
            "job.sh: devices: 3 is no multiple of tp 2 times cp 1 times pp 2");
}

TEST(MegatronJob, ProgramsThatTrainOtherModelsAreRefusedByName) {
  const auto line = [](const std::string& text) {
    return complaint([&] { static_cast<void>(megatron(text)); });
  };
  EXPECT_EQ(line("torchrun pretrain_t5.py --encoder-num-layers 12 --num-layers 12"),
            "job.args: pretrain_t5.py: trains an encoder with a decoder, which is not read from "
            "Megatron's jobs: pretrain_gpt.py's are");
  EXPECT_EQ(line(kSmall + "--is-hybrid-model"),
            "job.args: --is-hybrid-model: not modelled: Mamba's blocks");
  EXPECT_EQ(line(". ./sizes.sh\ntorchrun pretrain_gpt.py --num-layers 4"),
            "job.args: --hidden-size: is missing; line 1: source ./sizes.sh: not followed, what it "
            "sets is not known");
}

// Nodes that Slurm will know are not known here.
TEST(MegatronJob, DevicesOnlyWhereTheFileCountsThem) {
  const auto dp = [](const std::string& launcher) {
    return read_megatron_job("torchrun " + launcher + " pretrain_gpt.py " + kSmall, "job.sh", {})
        .plan.dp;
  };
  EXPECT_EQ(dp("--nproc_per_node 4 --nnodes 2"), 8);
  EXPECT_EQ(dp("--nproc_per_node 4"), 4);
  EXPECT_EQ(dp("--nproc_per_node 4 --nnodes $SLURM_NNODES"), 1);
}

TEST(MegatronJob, WhatMattersAndIsNotCarriedIsListed) {
  const Job job = megatron(
      kSmall +
      "--sequence-parallel --recompute-activations --use-distributed-optimizer --fp8-format "
      "hybrid --save-interval 10 --zero-stage 0 --overlap-moe-expert-parallel-comm --cp-comm-type "
      "p2p");
  EXPECT_EQ(names(job), "fp8-format overlap-moe-expert-parallel-comm cp-comm-type ");
}

TEST(MegatronJob, SupposedIsSaid) {
  const Job job = megatron(
      "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 4 --micro-batch-size 1",
      JobOptions{});
  EXPECT_EQ(names(job), "vocab-size data parallelism global-batch-size ");
}

TEST(MegatronJob, RefusesInOneLine) {
  const auto line = [](const std::string& more) {
    return complaint([&] { static_cast<void>(megatron(kSmall + more)); });
  };
  EXPECT_EQ(line("--num-layers many"),
            "job.args: --num-layers: expected an integer from 1 to 100000, found many");
  EXPECT_EQ(
      line("--global-batch-size 15 --micro-batch-size 2"),
      "job.args: --global-batch-size: 15 is no multiple of micro-batch-size 2 times 1 replicas");
  EXPECT_EQ(line("--expert-model-parallel-size 4"),
            "job.args: --expert-model-parallel-size: the model has no experts");
  EXPECT_EQ(line("--bf16 --fp16"), "job.args: --bf16: contradicts --fp16");
  EXPECT_EQ(line("--optimizer lamb"), "job.args: --optimizer: lamb: expected adam, sgd or muon");
  EXPECT_EQ(complaint([] { static_cast<void>(megatron("# nothing\n")); }),
            "job.args: holds no arguments, expected --num-layers and its like");
  EXPECT_EQ(complaint([] { static_cast<void>(megatron("--num-layers 4")); }),
            "job.args: --hidden-size: is missing");
}

// DeepSeek-R1's arguments: 671,026,419,200 parameters, as its config has (deepseek-ai/DeepSeek-V3
// README_WEIGHTS.md: 671B).
TEST(MegatronJob, ReadsLatentAttentionAndExperts) {
  const std::string r1 =
      "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 "
      "--qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm --swiglu --disable-bias-linear "
      "--normalization RMSNorm --position-embedding-type rope --num-experts 256 "
      "--moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
      "--moe-layer-freq \"([0]*3+[1]*58)\" --moe-router-enable-expert-bias "
      "--untie-embeddings-and-output-weights --vocab-size 129280 --seq-length 4096 "
      "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 16\n";
  const Job job = megatron(r1);
  EXPECT_EQ(parameter_count(job.model), 671'026'419'200);
  const Job limited = megatron(r1 + "--moe-router-num-groups 8 --moe-router-group-topk 4");
  EXPECT_EQ(std::get<TransformerShape>(limited.model.layers.at(9).shape).groups_per_token, 4);
  const Job one = megatron(r1 + "--moe-router-num-groups 1 --moe-router-group-topk 1");
  EXPECT_EQ(std::get<TransformerShape>(one.model.layers[60].shape).expert_groups, 0);
  EXPECT_THAT(complaint([&] { static_cast<void>(megatron(r1 + "--moe-router-num-groups 7")); }),
              HasSubstr("--moe-router-num-groups: expected two or more groups"));
  // Its prediction module has 11,610,068,224 (tests/plan/expert_families_test.cpp).
  const Job predicting = megatron(r1 + "--mtp-num-layers 1 --mtp-loss-scaling-factor 0.3");
  EXPECT_EQ(predicting.plan.prediction_layers, 1);
  EXPECT_EQ(predicting.plan.prediction_weight, 0.3);
  EXPECT_EQ(parameter_count(predicting.model), 671'026'419'200 + 11'610'068'224);
  // The documentation's layout: blocks to stage 29, the module alone, the head alone. Behind 61
  // blocks come the norm, 62, the module, 63, and the head.
  const std::string sixteen = r1 +
                              "--pipeline-model-parallel-size 16 --pipeline-model-parallel-layout "
                              "'Et*3|(tt|)*29,m|L' ";
  const Plan alone = megatron(sixteen + "--mtp-num-layers 1").plan;
  ASSERT_EQ(alone.boundaries.size(), 31U);
  EXPECT_EQ(alone.boundaries[28], 60);
  EXPECT_EQ(alone.boundaries[29], 63);
  EXPECT_EQ(alone.boundaries[30], 64);
  EXPECT_THAT(complaint([&] { static_cast<void>(megatron(sixteen)); }),
              HasSubstr("has 1 m, --mtp-num-layers says 0"));
  EXPECT_EQ(megatron(r1 + "--cpu-offloading-num-layers 2").plan.offload_activations, 2.0 / 61);
  EXPECT_THAT(complaint([&] { static_cast<void>(megatron(r1 + "--moe-layer-freq [0]*3")); }),
              HasSubstr("--moe-layer-freq: holds 3 layers of num-layers 61"));
}

// A layer list says everything a decoder of arguments can be: written and read, it is written the
// same again.
TEST(LayerList, KeepsEveryShape) {
  const Job job = megatron(
      kSmall +
      "--swiglu --normalization RMSNorm --disable-bias-linear --add-qkv-bias --num-query-groups 2 "
      "--group-query-attention --position-embedding-type rope --kv-channels 32 "
      "--untie-embeddings-and-output-weights --embed-layernorm --num-experts 4 --norm-epsilon "
      "1e-6");
  const std::string text = to_layer_list(job.model);
  const auto file = std::filesystem::temp_directory_path() / "weir-layer-list-test.json";
  write_file_atomically(file, text);
  Model read = load_model(file);
  std::filesystem::remove(file);
  read.name = job.model.name;
  EXPECT_EQ(to_layer_list(read), text);
  EXPECT_EQ(read.layers.size(), 11U);
  EXPECT_EQ(read.layers[3].name, "block.2");
  const auto& block = std::get<TransformerShape>(read.layers[1].shape);
  EXPECT_EQ(block.ffn, 128);  // 4 * 64 * 2 / 3 = 170, in whole 64s
  EXPECT_EQ(block.experts_per_token, 2);
  EXPECT_TRUE(block.qkv_bias && !block.mlp_bias && block.rotary && block.gated);
}

// BLOOM-176B has 176,247,271,424 parameters (Le Scao et al., 2022, table 3).
TEST(MegatronSamples, AreRead) {
  const std::filesystem::path folder =
      std::filesystem::path(WEIR_SOURCE_DIR) / ".." / "shared" / "samples" / "megatron-args";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no sample files beside the checkout";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Job job =
        read_megatron_job(read_text_file(entry.path()), entry.path().filename().string(), {});
    EXPECT_FALSE(job.remarks.empty()) << entry.path();
    for (const Remark& remark : job.remarks) {
      EXPECT_THAT(remark.text, testing::Not(HasSubstr("not in the plan")))
          << entry.path() << ", " << remark.name;
    }
    if (entry.path().stem() == "llama3_8b_h100_fp8") {
      EXPECT_EQ(job.plan.zero, job.plan.dp > 1 ? 1 : 0);
      EXPECT_EQ(job.plan.sequence_parallel, job.plan.tp > 1);
    }
    if (entry.path().stem() == "bloom_176b_tr11") {
      EXPECT_EQ(parameter_count(job.model), 176'247'271'424);
      EXPECT_EQ(job.plan.boundaries.front(), 6);
    }
  }
}

}  // namespace
}  // namespace weir::megatron_import_test

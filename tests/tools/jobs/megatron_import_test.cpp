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
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/layout.hpp"

namespace weir::megatron_import_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Job megatron(const std::string& text, const JobOptions& options = {.dp = 1}) {
  return read_megatron_job(text, "job.args", options);
}

// Eight blocks of width 64, one micro-batch of one sequence: what every example below adds to.
const std::string kSmall =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32\n"
    "--vocab-size 1000 --micro-batch-size 1 --global-batch-size 16\n";

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

// By today's names and earlier ones; of a list's brackets nothing is left, and router and
// preprocessing are one where the implementation is Megatron's own.
TEST(MegatronJob, ReadsWhatIsLaunchedAsGraphs) {
  const auto graphs = [](const std::string& arguments) {
    return to_string(megatron(kSmall + arguments + "\n").plan.cuda_graphs);
  };
  EXPECT_EQ(graphs("--cuda-graph-warmup-steps 3"), "none");
  EXPECT_EQ(graphs("--enable-cuda-graph"), "blocks");
  EXPECT_EQ(graphs("--cuda-graph-impl local --cuda-graph-scope full"), "blocks");
  EXPECT_EQ(graphs("--cuda-graph-impl full_iteration"), "step");
  EXPECT_EQ(graphs("--enable-cuda-graph --cuda-graph-scope full_iteration"), "step");
  EXPECT_EQ(graphs("--external-cuda-graph --cuda-graph-scope attn"), "attn");
  EXPECT_EQ(graphs("--cuda-graph-impl transformer_engine --cuda-graph-modules '[attn mlp]'"),
            "attn+mlp");
  EXPECT_EQ(graphs("--cuda-graph-impl local --cuda-graph-modules attn moe_router"),
            "attn+moe_router+moe_preprocess");
  EXPECT_EQ(graphs("--cuda-graph-impl local --cuda-graph-scope full_iteration_inference"), "none");
  EXPECT_EQ(graphs("--cuda-graph-impl none --cuda-graph-scope attn"), "none");
  EXPECT_THAT(complaint([&] { graphs("--cuda-graph-impl fast"); }),
              HasSubstr("job.args: --cuda-graph-impl: expected none, local"));
  EXPECT_THAT(complaint([&] {
                graphs("--cuda-graph-impl transformer_engine --cuda-graph-modules moe_preprocess");
              }),
              HasSubstr("--cuda-graph-modules: expected moe_preprocess with moe_router"));
  EXPECT_THAT(names(megatron(kSmall + "--enable-cuda-graph\n")),
              testing::Not(HasSubstr("cuda-graph")));
}

// Packed rows are forecast as whole ones until lengths are said; of rows that are as long as their
// sequences nothing is known without.
TEST(MegatronJob, SaysWhatRowsHold) {
  const auto read = [](const std::string& arguments, const GivenFields& given = {}) {
    Job job = megatron(kSmall + arguments + "\n");
    take_lengths(given, "job.args", job);
    return job;
  };
  EXPECT_TRUE(read("--packing false").rows.name.empty());
  const Job packed = read("--packing true");
  EXPECT_EQ(packed.rows.name, "packing");
  EXPECT_THAT(packed.remarks.back().text, HasSubstr("attention is forecast over whole rows"));
  const GivenFields given{.lengths = {{4, 32}, RowsOf::packed}};
  EXPECT_EQ(read("--packing true", given).plan.lengths, given.lengths);
  EXPECT_EQ(read("--variable-seq-lengths", given).plan.lengths.rows, RowsOf::longest);
  EXPECT_THAT(complaint([&] { read("--variable-seq-lengths"); }),
              HasSubstr("job.args: variable-seq-lengths: rows are as long as their longest"));
  EXPECT_THAT(complaint([&] { read("--hybrid-context-parallel"); }),
              HasSubstr("--hybrid-context-parallel: groups of context parallelism that change"));
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

// Flags of sail-sg/VocabularyParallelism (megatron/training/arguments.py): the others mean nothing
// without the first, which asks for tables apart and a vocabulary that all devices divide.
TEST(MegatronJob, DividesTheVocabulary) {
  const std::string apart = kSmall + "--untie-embeddings-and-output-weights\n";
  const auto schedule = [&](const std::string& arguments) {
    return megatron(apart + "--pipeline-model-parallel-size 4 " + arguments + "\n").plan.schedule;
  };
  EXPECT_EQ(schedule("--enable-vocab-parallel"), "vocab-2");
  EXPECT_EQ(schedule("--enable-vocab-parallel --disable-backward-fusion"), "vocab-1");
  EXPECT_EQ(schedule("--enable-vocab-parallel --use-interlaced-schedule"), "interlaced");
  EXPECT_EQ(schedule("--use-interlaced-schedule --disable-backward-fusion"), "1f1b");
  const Job idle = megatron(apart + "--pipeline-model-parallel-size 4 --use-interlaced-schedule\n");
  EXPECT_THAT(names(idle), HasSubstr("use-interlaced-schedule"));
  const auto refused = [](const std::string& arguments, const char* reason) {
    EXPECT_THAT(
        complaint([&] { static_cast<void>(megatron(arguments + " --enable-vocab-parallel\n")); }),
        HasSubstr(reason));
  };
  refused(apart, "enable-vocab-parallel: needs a pipeline of at least two ranks");
  refused(kSmall + "--pipeline-model-parallel-size 4",
          "enable-vocab-parallel: needs --untie-embeddings-and-output-weights");
  refused(apart + "--pipeline-model-parallel-size 4 --make-vocab-size-divisible-by 6",
          "make-vocab-size-divisible-by: 6: expected a multiple of tp x pp = 4 with "
          "--enable-vocab-parallel");
  refused(apart + "--pipeline-model-parallel-size 4 --enable-zero-bubble",
          "enable-vocab-parallel: excludes --enable-zero-bubble");
  refused(apart + "--pipeline-model-parallel-size 4 --enable-zbh1-pipeline",
          "enable-vocab-parallel: excludes --enable-zbh1-pipeline");
  const std::string two = apart + "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2";
  refused(two + " --sequence-parallel --use-interlaced-schedule",
          "use-interlaced-schedule: excludes --sequence-parallel");
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

// Six blocks on two stages: `block` rebuilds the first so many of each, layers 1, 2 and 4, 5; all
// of them is full, none is none. `uniform` rebuilds so many at a time.
TEST(MegatronJob, RecomputeOfSomeLayers) {
  const auto read = [](const std::string& words) {
    return megatron(
        "--num-layers 6 --hidden-size 8 --num-attention-heads 2 --seq-length 4 "
        "--micro-batch-size 1 --global-batch-size 4 --vocab-size 10 "
        "--pipeline-model-parallel-size 2 --recompute-granularity full --recompute-method " +
        words);
  };
  const auto word = [&](const std::string& words) {
    return recompute_word(read(words).plan.recompute);
  };
  EXPECT_EQ(word("block --recompute-num-layers 2"), "1-2,4-5");
  EXPECT_EQ(word("block --recompute-num-layers 3"), "full");
  EXPECT_EQ(word("block --recompute-num-layers 0"), "none");
  EXPECT_THAT(names(read("block --recompute-num-layers 2")), testing::Not(HasSubstr("recompute")));
  EXPECT_EQ(word("uniform --recompute-num-layers 1"), "full");
  EXPECT_EQ(word("uniform --recompute-num-layers 2"), "full:2");
  EXPECT_THAT(names(read("uniform --recompute-num-layers 2")),
              testing::Not(HasSubstr("recompute")));
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
  EXPECT_EQ(names(job), "overlap-moe-expert-parallel-comm fp8-format cp-comm-type ");
}

// Delayed where nothing is said; beside fp32 the plan has no such products, and one line says so.
TEST(MegatronJob, ProductsIn8BitsAreThePlans) {
  const auto read = [](const std::string& more) { return megatron(kSmall + more); };
  const Job job = read("--bf16 --fp8-format hybrid --fp8-amax-history-len 1024 --fp8-margin 0");
  EXPECT_EQ(job.plan.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(job.model.layers[1].treated.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(names(job).find("fp8"), std::string::npos);
  const Plan mx = read("--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather").plan;
  EXPECT_EQ(mx.fp8, Fp8Recipe::mxfp8);
  EXPECT_TRUE(mx.fp8_parameters);
  EXPECT_EQ(read("--bf16").plan.fp8, Fp8Recipe::none);
  EXPECT_EQ(read("--fp8-format hybrid").plan.fp8, Fp8Recipe::none);
  EXPECT_THAT(names(read("--fp8-format hybrid")), HasSubstr("fp8-format"));
  EXPECT_THAT(names(read("--bf16 --fp8-format hybrid --fp8-recipe custom")),
              HasSubstr("fp8-recipe"));
}

// Megatron clips by a norm of 1 where it is not told; its decay needs to know when it ends, and
// samples are iterations times the batch.
TEST(MegatronJob, ClipsAndMovesItsRate) {
  const auto optimizer = [](const std::string& more) {
    const Job job = megatron(kSmall + more);
    EXPECT_EQ(names(job), "") << more;
    return job.plan.optimizer;
  };
  EXPECT_EQ(optimizer("").clip_norm, 1);
  EXPECT_EQ(optimizer("--clip-grad 0").clip_norm, 0);
  EXPECT_EQ(optimizer("").rate, RateSchedule{});
  EXPECT_EQ(optimizer("--train-iters 500").rate, (RateSchedule{0, 500, DecayStyle::linear, 0}));
  EXPECT_EQ(optimizer("--lr 1e-3 --min-lr 1e-5 --lr-decay-style cosine --lr-decay-iters 400 "
                      "--lr-warmup-iters 30 --train-iters 500")
                .rate,
            (RateSchedule{30, 400, DecayStyle::cosine, 1e-5}));
  EXPECT_EQ(optimizer("--train-samples 8000 --lr-warmup-fraction 0.1").rate,
            (RateSchedule{50, 500, DecayStyle::linear, 0}));
  EXPECT_EQ(optimizer("--lr-decay-style constant --train-iters 500 --lr-warmup-iters 3").rate,
            RateSchedule{.warmup_iters = 3});
  EXPECT_EQ(names(megatron(kSmall + "--lr-decay-style inverse-square-root --lr-warmup-init 1e-7")),
            "lr-warmup-init lr-decay-style ");
  EXPECT_EQ(names(megatron(kSmall + "--lr-decay-style cosine")), "lr-decay-style ");
  // A decay that has no end and a share of iterations that nobody said are not the plan's.
  EXPECT_EQ(names(megatron(kSmall + "--lr 1e-4 --min-lr 1e-5 --lr-warmup-fraction 0.05")),
            "min-lr lr-warmup-fraction ");
}

// One replica has nobody to share with, and Megatron drops sequence parallelism without tensor
// parallelism.
TEST(MegatronJob, WhatDevicesShareIsInThePlan) {
  const auto plan = [](const std::string& more, int dp) {
    const Job job = megatron(kSmall + "--bf16 " + more, {.dp = dp});
    EXPECT_EQ(names(job), "") << more;
    return job.plan;
  };
  const std::string all =
      "--tensor-model-parallel-size 2 --sequence-parallel --overlap-grad-reduce ";
  EXPECT_EQ(plan(all, 1).split(), (Split{2, 1, true}));
  EXPECT_FALSE(plan(all, 1).overlap_grad_reduce);
  EXPECT_FALSE(plan(all, 1).overlap_tensor_parallel) << "nobody asked";
  EXPECT_TRUE(plan(all + "--tp-comm-overlap", 1).overlap_tensor_parallel);
  EXPECT_FALSE(plan("--tensor-model-parallel-size 2 --tp-comm-overlap", 1).overlap_tensor_parallel)
      << "needs sequence parallelism (arguments.py)";
  const std::string gathers = "--overlap-param-gather --overlap-grad-reduce ";
  EXPECT_TRUE(plan(gathers + "--use-distributed-optimizer", 4).overlap_param_gather);
  EXPECT_FALSE(plan(gathers + "--use-distributed-optimizer", 1).overlap_param_gather);
  EXPECT_FALSE(plan(gathers, 4).overlap_param_gather) << "whole weights are gathered nowhere";
  EXPECT_TRUE(plan(all, 4).overlap_grad_reduce);
  EXPECT_EQ(plan("--use-tp-pp-dp-mapping", 4).rank_order, RankOrder::tp_cp_pp_dp);
  EXPECT_EQ(plan("--use-tp-pp-dp-mapping", 1).rank_order, RankOrder::tp_cp_dp_pp);
  EXPECT_FALSE(plan("--sequence-parallel", 4).sequence_parallel);
  EXPECT_EQ(plan("--use-distributed-optimizer", 1).zero, 0);
  EXPECT_EQ(plan("--use-distributed-optimizer", 4).zero, 1);
  EXPECT_EQ(plan("--use-distributed-optimizer --context-parallel-size 2", 1).zero, 1);
  EXPECT_EQ(plan("--zero-stage 2", 4).zero, 2);
  EXPECT_EQ(plan("--use-torch-fsdp2", 4).zero, 3);
  EXPECT_EQ(plan("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", 4).zero, 2);
  const std::string fsdp = "--use-distributed-optimizer --use-megatron-fsdp ";
  EXPECT_EQ(plan(fsdp, 4).zero, 0);
  EXPECT_EQ(plan(fsdp + "--data-parallel-sharding-strategy optim_grads_params", 4).zero, 3);
  EXPECT_EQ(complaint([&] {
              static_cast<void>(megatron(kSmall + fsdp + "--data-parallel-sharding-strategy all"));
            }),
            "job.args: --data-parallel-sharding-strategy: expected no_shard, optim, optim_grads or "
            "optim_grads_params");
}

TEST(MegatronJob, SelectiveIsTheAttentionCore) {
  for (const char* words : {"--recompute-activations",
                            "--recompute-granularity selective --recompute-modules core_attn"}) {
    const Job job = megatron(kSmall + words);
    EXPECT_EQ(job.plan.recompute, (Recompute{.mode = RecomputeMode::selective})) << words;
    EXPECT_EQ(names(job), "") << words;
  }
  EXPECT_EQ(names(megatron(kSmall + "--recompute-activations --recompute-modules core_attn mlp")),
            "");
  EXPECT_EQ(names(megatron(kSmall + "--recompute-activations --recompute-modules core_attn mhc")),
            "recompute-modules ");
}

// Megatron gathers all tokens where a script says nothing; flex sends each once, whichever library
// does. Of one device there is nothing to say.
TEST(MegatronJob, TheDispatcherIsAWordOfThePlan) {
  const std::string experts = kSmall + "--num-experts 4 --expert-model-parallel-size 2 ";
  const auto way = [&](const std::string& words) {
    return megatron(experts + words, {.dp = 2}).plan.expert_dispatch;
  };
  EXPECT_EQ(way(""), ExpertDispatch::allgather);
  EXPECT_EQ(way("--moe-token-dispatcher-type alltoall"), ExpertDispatch::alltoall);
  EXPECT_EQ(way("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep"),
            ExpertDispatch::once);
  EXPECT_EQ(megatron(kSmall + "--num-experts 4", {.dp = 2}).plan.expert_dispatch,
            ExpertDispatch::by_stack);
  EXPECT_EQ(complaint([&] { way("--moe-token-dispatcher-type pigeon"); }),
            "job.args: --moe-token-dispatcher-type: expected allgather, alltoall or flex");
}

// Gradients in fp16 are half the bytes of those in a plan; bf16 jobs sum in fp32 by themselves.
TEST(MegatronJob, Fp16SumsInFp16UnlessToldOtherwise) {
  EXPECT_EQ(names(megatron(kSmall + "--fp16")), "accumulate-allreduce-grads-in-fp32 ");
  EXPECT_EQ(names(megatron(kSmall + "--fp16 --accumulate-allreduce-grads-in-fp32")), "");
  EXPECT_EQ(names(megatron(kSmall + "--bf16")), "");
}

// flash and fused differ in the library, not in what is kept; of fp32 there is no fused kernel.
TEST(MegatronJob, FusedAttentionIsCarried) {
  const auto attention = [](const std::string& more) {
    return megatron(kSmall + more).plan.attention;
  };
  EXPECT_EQ(attention(""), AttentionKind::unfused);
  EXPECT_EQ(attention("--attention-backend unfused"), AttentionKind::unfused);
  EXPECT_EQ(attention("--use-flash-attn"), AttentionKind::fused);
  EXPECT_EQ(attention("--attention-backend flash"), AttentionKind::fused);
  EXPECT_EQ(attention("--use-flash-attn --attention-backend fused"), AttentionKind::fused);
  EXPECT_EQ(attention("--attention-backend auto"), AttentionKind::unfused);
  EXPECT_EQ(names(megatron(kSmall + "--use-flash-attn")), "");
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

// Settings of an optimizer that is not the job's have no effect on it.
TEST(MegatronJob, SaysWhatOptimizersLeaveUnread) {
  const auto fate = [](const std::string& more, const std::string& name) {
    const Job job = megatron(kSmall + more);
    const auto found = std::ranges::find(job.arguments, name, &JobArgument::name);
    return found == job.arguments.end() ? Fate::unknown : found->fate;
  };
  EXPECT_EQ(fate("--muon-momentum 0.9", "muon-momentum"), Fate::no_effect);
  EXPECT_EQ(fate("--optimizer muon --muon-momentum 0.9", "muon-momentum"), Fate::carried);
  EXPECT_EQ(fate("--sgd-momentum 0.9", "sgd-momentum"), Fate::no_effect);
  EXPECT_EQ(fate("--optimizer sgd --adam-eps 1e-8", "adam-eps"), Fate::no_effect);
  EXPECT_EQ(fate("--optimizer sgd --muon-nesterov", "muon-nesterov"), Fate::no_effect);
  EXPECT_EQ(fate("--optimizer muon --adam-eps 1e-8", "adam-eps"), Fate::carried);
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

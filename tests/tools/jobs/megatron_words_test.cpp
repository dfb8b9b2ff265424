// What a plan says of how a Megatron job runs, word by word: what its arguments are read as.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tests/tools/jobs/small_job.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::megatron_words_test {
namespace {

using small_job::kSmall;
using small_job::megatron;
using testing::HasSubstr;

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
  // With --sft the rows are conversations', whatever their masks are.
  const Job both = read("--sft --dataloader-inter-document-masking");
  EXPECT_EQ(both.rows.name, "sft");
  EXPECT_EQ(both.rows.rows, RowsOf::packed);
  EXPECT_EQ(read("--dataloader-inter-document-masking").rows.rows, RowsOf::cut);
  const GivenFields given{.lengths = {{4, 32}, RowsOf::packed}};
  EXPECT_EQ(read("--packing true", given).plan.lengths, given.lengths);
  EXPECT_EQ(read("--variable-seq-lengths", given).plan.lengths.rows, RowsOf::longest);
  EXPECT_THAT(complaint([&] { read("--variable-seq-lengths"); }),
              HasSubstr("job.args: variable-seq-lengths: rows are as long as their longest"));
  EXPECT_THAT(complaint([&] { read("--dynamic-context-parallel"); }),
              HasSubstr("--dynamic-context-parallel: bins of sequences whose groups of context"));
}

// Devices by each sequence's length: the tokens of one are the job's word, the lengths the user's,
// and what Megatron asserts is asserted.
TEST(MegatronJob, DealsSequencesToDevices) {
  const std::string most = "--sft --hybrid-context-parallel --max-seqlen-per-dp-cp-rank 16 ";
  const auto read = [](const std::string& arguments, const GivenFields& given) {
    const std::string text = kSmall + "--context-parallel-size 2 " + arguments + "\n";
    Job job = read_megatron_job(text, "job.args", {.gpus = 4});
    take_lengths(given, "job.args", job);
    return job;
  };
  const GivenFields given{.lengths = {{4, 32}, RowsOf::packed}};
  const Job job = read(most + "--calculate-per-token-loss", given);
  EXPECT_EQ(job.plan.lengths.dynamic_cp, 16);
  EXPECT_EQ(job.plan.lengths.rows, RowsOf::packed);
  // Without the flag the tokens are idle.
  EXPECT_EQ(read("--sft --max-seqlen-per-dp-cp-rank 16", given).plan.lengths.dynamic_cp, 0);
  const auto refused = [&](const std::string& arguments, const char* reason) {
    EXPECT_THAT(complaint([&] { read(arguments, given); }), HasSubstr(reason));
  };
  EXPECT_THAT(complaint([&] { read(most + "--calculate-per-token-loss", {}); }),
              HasSubstr("each sequence's devices follow its length, which the job does not say"));
  refused(most, "hybrid-context-parallel: needs --calculate-per-token-loss");
  refused("--hybrid-context-parallel --calculate-per-token-loss", "expected with --sft");
  refused("--sft --hybrid-context-parallel --calculate-per-token-loss",
          "max-seqlen-per-dp-cp-rank");
  refused(most + "--calculate-per-token-loss --dataloader-type cyclic",
          "needs --dataloader-type single");
  refused(most + "--calculate-per-token-loss --pipeline-model-parallel-size 2",
          "excludes a pipeline");
  refused(
      "--sft --hybrid-context-parallel --max-seqlen-per-dp-cp-rank 4 "
      "--calculate-per-token-loss",
      "lengths: dynamic_cp = 4: the longest sequence has 32 tokens, above the 16 of 4 devices");
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
    // One replica reduces nothing, which is said.
    const bool alone = dp == 1 && more.find("overlap-grad-reduce") != std::string::npos;
    EXPECT_EQ(names(job), alone ? "overlap-grad-reduce " : "") << more;
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

// Exchanges of experts go beside other work where Megatron lets them; else one line says what it
// asserts.
TEST(MegatronJob, OverlapOfExpertsIsWhereMegatronHasIt) {
  const std::string experts =
      kSmall +
      "--num-experts 4 --expert-model-parallel-size 2 --bf16 --overlap-moe-expert-parallel-comm ";
  const std::string sent = "--moe-token-dispatcher-type alltoall ";
  const auto unmet = [&](const std::string& words) {
    const Job job = megatron(experts + words, {.dp = 2});
    EXPECT_FALSE(job.plan.overlap_experts) << words;
    for (const Remark& remark : job.remarks)
      if (remark.name == "overlap-moe-expert-parallel-comm") return remark.text;
    return std::string();
  };
  EXPECT_TRUE(megatron(experts + sent, {.dp = 2}).plan.overlap_experts);
  EXPECT_THAT(unmet(""), HasSubstr("alltoall or flex: not in the plan"));
  EXPECT_THAT(unmet(sent + "--pipeline-model-parallel-size 2 "),
              HasSubstr("several stages a rank"));
  EXPECT_THAT(unmet(sent + "--recompute-granularity full --recompute-method uniform "
                           "--recompute-num-layers 1 "),
              HasSubstr("no full re-materialisation"));
  EXPECT_THAT(unmet(sent + "--recompute-granularity selective --recompute-modules moe "),
              HasSubstr("no moe among"));
  EXPECT_THAT(unmet(sent + "--moe-shared-expert-overlap "), HasSubstr("no --moe-shared"));
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

}  // namespace
}  // namespace weir::megatron_words_test

// Scripts of slime: Megatron's arguments, what slime sets beside them, and micro-batches packed
// from rollouts. Scripts are written here as slime's are.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "plan/job/summary.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::slime_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Job read(const std::string& text, const GivenFields& given = {}) {
  return read_megatron_job(text, "job", {.given = given});
}

// The first remark of that name.
std::string text_of(const Job& job, const std::string& name) {
  const auto found = std::ranges::find(job.remarks, name, &Remark::name);
  return found == job.remarks.end() ? "" : found->text;
}

// slime's arguments are Megatron's, but it always trains in bf16 with a sharded optimizer, and its
// devices are the actor's.
const std::string kSlime =
    "python3 train.py --actor-num-nodes 2 --actor-num-gpus-per-node 4 --hf-checkpoint $BASE/m "
    "--rollout-batch-size 32 --n-samples-per-prompt 8 --num-layers 8 --hidden-size 512 "
    "--num-attention-heads 8 --vocab-size 32000 --position-embedding-type rope ";

TEST(Slime, SlimesDefaults) {
  const std::string job = kSlime +
                          "--global-batch-size 64 --use-dynamic-batch-size --max-tokens-per-gpu "
                          "9216 --micro-batch-size 16\n";
  // The data's own lengths, which the user knows: of 1024 tokens 9 go into 9216, and of a replica's
  // 64 / 8 all 8 go at once. The script's 16 says nothing beside packed micro-batches.
  const std::string refused = complaint([&] { static_cast<void>(read(job)); });
  EXPECT_THAT(refused, AllOf(HasSubstr("--seq-length: is missing"), HasSubstr("and -b")));
  const Job made = read(job, {.seq_length = 1024});
  EXPECT_EQ(summary(made.plan), "K1 dp8 zero1 M1 b8 1f1b fused");
  EXPECT_EQ(made.plan.dtype, Dtype::bf16);
  EXPECT_THAT(names(made), HasSubstr("use-dynamic-batch-size"));
  const Job two = read(job, {.seq_length = 1024, .micro_batch_size = 2});
  EXPECT_EQ(summary(two.plan), "K1 dp8 zero1 M4 b2 1f1b fused");
}

// A rollout of so many prompts as the environment says is slime's still.
TEST(Slime, ARolloutsSizeMayBeUnknown) {
  std::string job = kSlime +
                    "--rollout-max-response-len 1024 --global-batch-size 64 "
                    "--micro-batch-size 1 --num-steps-per-rollout 2\n";
  job.replace(job.find("size 32 "), 8, "size ${RB} ");
  const Job made = read(job);
  EXPECT_EQ(made.plan.dtype, Dtype::bf16);
  EXPECT_EQ(made.plan.zero, 1);
  EXPECT_EQ(made.plan.seq_length, 1024);
}

// A prompt and its answer, as long as they may become, fill micro-batches of 9216 tokens on each of
// cp devices: 18432 / (512 + 4096) = 4, and of a replica's 32 * 8 / 2 / 4 = 32 samples 4 at once.
TEST(Slime, SlimesSamplesAreAsLongAsRolloutsLetThem) {
  const std::string rollout = kSlime +
                              "--num-steps-per-rollout 2 --context-parallel-size 2 "
                              "--rollout-max-response-len 4096 --rollout-max-prompt-len 512 ";
  const std::string packed = "--use-dynamic-batch-size --max-tokens-per-gpu 9216\n";
  const Job made = read(rollout + packed);
  EXPECT_EQ(made.plan.seq_length, 4608);
  EXPECT_EQ(made.plan.global_batch_size(), 128);
  EXPECT_EQ(summary(made.plan), "K1 cp2 dp4 zero1 M8 b4 1f1b fused");
  EXPECT_THAT(text_of(made, "max-tokens-per-gpu"),
              HasSubstr("9216 tokens on each of cp 2: 4 samples of 4608 tokens"));
  // The rollout's share is what a mini-batch beside it must be; 32 * 8 / 2 = 128.
  EXPECT_EQ(summary(read(rollout + "--global-batch-size 128 " + packed).plan), summary(made.plan));
  EXPECT_THAT(names(read(rollout + "--global-batch-size 128 " + packed)),
              testing::Not(HasSubstr("num-steps-per-rollout")));
  EXPECT_THAT(
      complaint([&] { static_cast<void>(read(rollout + "--global-batch-size 64 " + packed)); }),
      HasSubstr("--global-batch-size: 64, but --num-steps-per-rollout 2 leaves 128"));
  EXPECT_THROW(static_cast<void>(read(rollout + packed, {.global_batch_size = 64})), UsageError);
  // A context ends answers: 18432 / 2560 = 7, of which 4 divide 32.
  EXPECT_EQ(summary(read(rollout + "--rollout-max-context-len 2560 " + packed).plan),
            "K1 cp2 dp4 zero1 M8 b4 1f1b fused");
  // One that is longer than the tokens is alone.
  EXPECT_EQ(
      read(rollout + "--use-dynamic-batch-size --max-tokens-per-gpu 512\n").plan.micro_batch_size,
      1);
  // Of 60 samples the 4 replicas have 15 each, the 8 without cp cannot be alike.
  const std::string sixty = kSlime + "--rollout-max-response-len 4096 --global-batch-size 60 ";
  EXPECT_EQ(summary(read(sixty + "--context-parallel-size 2 " + packed).plan),
            "K1 cp2 dp4 zero1 M5 b3 1f1b fused");
  EXPECT_THAT(complaint([&] { static_cast<void>(read(sixty + packed)); }),
              HasSubstr("--global-batch-size: 60 samples are not equally many for each of 8"));
  // Not packed, and nothing said: one at once.
  EXPECT_EQ(summary(read(rollout + "\n").plan), "K1 cp2 dp4 zero1 M32 b1 1f1b fused");
}

// A script's own length is a placeholder where the rollout bounds samples: 8192 / 2048 = 4 at once,
// and not one of 32768. An option that is given says otherwise: 8192 / 4096 = 2.
TEST(Slime, ItsSequenceLengthIsAPlaceholder) {
  const std::string job = kSlime +
                          "--global-batch-size 64 --rollout-max-response-len 2048 "
                          "--use-dynamic-batch-size --max-tokens-per-gpu 8192 ";
  const Job made = read(job + "--seq-length 32768\n");
  EXPECT_EQ(made.plan.seq_length, 2048);
  EXPECT_EQ(made.plan.micro_batch_size, 4);
  EXPECT_THAT(text_of(made, "seq-length"), HasSubstr("32768 is a placeholder"));
  const Job given = read(job + "--seq-length 32768\n", {.seq_length = 4096});
  EXPECT_EQ(given.plan.seq_length, 4096);
  EXPECT_EQ(given.plan.micro_batch_size, 2);
  EXPECT_EQ(text_of(given, "seq-length"), "");
  // Without a prompt's or a context's bound, a prompt is told to be left out.
  EXPECT_THAT(text_of(made, "rollout-max-response-len"), HasSubstr("prompts are not counted"));
  EXPECT_EQ(text_of(read(job + "--rollout-max-prompt-len 64\n"), "rollout-max-response-len"), "");
  // A context alone lets a prompt be one token less than it, and an answer fill it.
  const Job context = read(job + "--rollout-max-context-len 16384\n");
  EXPECT_EQ(context.plan.seq_length, 16384);
  EXPECT_EQ(text_of(context, "rollout-max-response-len"), "");
}

// K = 4 with one of 8 layers a virtual stage leaves 2 replicas of 12 samples, of which 8192 / 2048
// = 4 go at once: M = 3 is no multiple of the 4 that virtual stages take together, M = 4 of 3 is.
// Of 5 samples each, nothing is.
TEST(Slime, VirtualStagesTakeWholeGroups) {
  const std::string job =
      kSlime +
      "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage "
      "1 --rollout-max-response-len 2048 --use-dynamic-batch-size "
      "--max-tokens-per-gpu 8192 --global-batch-size ";
  const Job made = read(job + "24\n");
  EXPECT_EQ(made.plan.vpp, 2);
  EXPECT_EQ(made.plan.microbatches, 4);
  EXPECT_EQ(made.plan.micro_batch_size, 3);
  const Job odd = read(job + "10\n");
  EXPECT_EQ(odd.plan.microbatches, 5);
  EXPECT_THAT(text_of(odd, "max-tokens-per-gpu"), HasSubstr("no groups of 4"));
}

}  // namespace
}  // namespace weir::slime_test

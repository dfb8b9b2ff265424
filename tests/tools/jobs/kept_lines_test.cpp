// What is beside a plan of the job that it was read from, and in the script that comes of it: names
// of the environment instead of its values, no secrets, no command of a shell as text.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/kept_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch.hpp"

namespace weir::kept_lines_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kJob =
    "#!/bin/bash\n"
    "python pretrain_gpt.py --num-layers $LAYERS --hidden-size 64 --num-attention-heads 4 "
    "--seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 "
    "--vocab-size 128 --wandb-key \"$SECRET\" --hf-token hunter3 --save ${OUT:-/tmp/none}/a "
    "--tensorboard-dir \"$(date +%F)\" --load $(cat last.txt) --tokenizer-model bpe.json "
    "--moe-token-dispatcher-type alltoall\n";

Job read() {
  JobOptions options;
  options.gpus = 1;
  options.environment = {{"LAYERS", "4"}, {"SECRET", "hunter2"}, {"OUT", "/data/mine"}};
  return read_megatron_job(kJob, "job.sh", options);
}

// The number of layers is the plan's, so it stays what it was; the folder was the reader's.
TEST(KeptLines, HaveNamesForValuesOfTheEnvironment) {
  const Job job = read();
  EXPECT_THAT(job.lines, AllOf(Contains("--num-layers 4"), Contains("--save '${OUT}/a'"),
                               Contains("--tokenizer-model bpe.json"),
                               Contains("--moe-token-dispatcher-type alltoall"),
                               Contains("--tensorboard-dir '$(date +%F)'")));
  EXPECT_THAT(job.lines, Each(AllOf(Not(HasSubstr("hunter")), Not(HasSubstr("/data")),
                                    Not(HasSubstr("wandb")), Not(HasSubstr("--load")))));
  for (const JobArgument& argument : job.arguments)
    EXPECT_THAT(argument.value, AllOf(Not(HasSubstr("hunter")), Not(HasSubstr("/data"))));
  EXPECT_EQ(job.remarks.back().name, "job");
  EXPECT_THAT(job.remarks.back().text, HasSubstr(": --hf-token --load --wandb-key"));
}

// A shell fills names in again; what a command makes is left out, and said.
TEST(KeptLines, BecomeNoOtherWordsInAScript) {
  Job job = read();
  job.plan.job = {.tool = "megatron", .devices = 1, .lines = job.lines};
  const ResolvedPlan plan = loaded(job.plan, job.model);
  const ExportedJob made = patched_megatron(patch_own_megatron_job(plan).value(), plan, {});
  EXPECT_THAT(made.files.front().text,
              AllOf(HasSubstr("--save \"${OUT}/a\""), Not(HasSubstr("$(date")),
                    Not(HasSubstr("--tensorboard-dir"))));
  bool said = false;
  for (const Remark& remark : made.not_carried)
    said = said || remark.text.find("--tensorboard-dir '$(date +%F)'") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(KeptLines, ASecretIsOneByItsLastWord) {
  for (const char* name : {"wandb-key", "hf_token", "api-secret", "password", "token"})
    EXPECT_TRUE(names_a_secret(name)) << name;
  for (const char* name : {"tokenizer-model", "moe-token-dispatcher-type", "kv-channels", "keys"})
    EXPECT_FALSE(names_a_secret(name)) << name;
}

}  // namespace
}  // namespace weir::kept_lines_test

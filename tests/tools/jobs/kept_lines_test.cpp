// What is beside a plan of the job that it was read from, and in the script that comes of it: names
// of the environment instead of its values, no secrets, no command of a shell as text.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/kept_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"
#include "tools/jobs/toml/open_lines.hpp"
#include "tools/jobs/torchtitan/import.hpp"

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

// A tokenizer is read, for its vocabulary, and is not in the plan; a password may stand in any
// argument's address.
TEST(KeptLines, HaveNoTokenizersOfTheEnvironmentAndNoPasswords) {
  JobOptions options;
  options.gpus = 1;
  options.environment = {{"WHERE", "https://me:hunter2@host/bpe.json"}};
  const Job job = read_megatron_job(
      "python pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 "
      "--vocab-size 128 --tokenizer-model $WHERE --load https://me:hunter3@host/x "
      "--save https://host:80/me@home\n",
      "job.sh", options);
  EXPECT_THAT(job.lines, AllOf(Contains("--tokenizer-model '${WHERE}'"),
                               Contains("--save https://host:80/me@home")));
  EXPECT_THAT(job.lines, Each(Not(HasSubstr("hunter"))));
  for (const JobArgument& argument : job.arguments)
    EXPECT_THAT(argument.value, Not(HasSubstr("hunter"))) << argument.name;
  EXPECT_THAT(job.remarks.back().text, HasSubstr(": --load"));
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

// A value that begins as an argument does stays behind its '=': read again it is no other argument,
// and the unchanged job has the lines that it had.
TEST(KeptLines, KeepAValueThatLooksLikeAnArgument) {
  JobOptions options;
  options.gpus = 1;
  const std::string text = kJob;
  const Job first = read_megatron_job(text.substr(0, text.find("--num-layers $LAYERS")) +
                                          "--num-layers 4 --note='--bf16 1' " +
                                          text.substr(text.find("--hidden-size")),
                                      "job.sh", options);
  EXPECT_THAT(first.lines, Contains("--note='--bf16 1'"));
  Job job = first;
  job.plan.job = {.tool = "megatron", .devices = 1, .lines = job.lines};
  const auto patch = patch_own_megatron_job(loaded(job.plan, job.model));
  ASSERT_TRUE(patch.has_value());
  EXPECT_TRUE(patch->changes.empty());
  std::vector<std::string> lines = first.lines;
  std::ranges::sort(lines);
  EXPECT_EQ(patch->lines, lines);
}

// What is written as a script again is one: names are filled in again there too.
TEST(KeptLines, AValueThatLooksLikeAnArgumentIsOpenedAgain) {
  Job job = read();
  job.lines.push_back("--note='--$X '");
  job.plan.job = {.tool = "megatron", .devices = 1, .lines = job.lines};
  const ResolvedPlan plan = loaded(job.plan, job.model);
  const ExportedJob made = patched_megatron(patch_own_megatron_job(plan).value(), plan, {});
  EXPECT_THAT(made.files.front().text, HasSubstr("--note=\"--$X \""));
}

// Values of TOML and JSON go with the plan line by line, too: not those of secrets, nor what stands
// beside one on its line.
TEST(KeptLines, OfTomlAndJsonHaveNoSecrets) {
  const std::string toml =
      "[model]\nflavor = '8B'\n[training]\nseq_len = 128\nlocal_batch_size = 4\n"
      "[parallelism]\npipeline_parallel_degree = 2\n[metrics]\nwandb_key = 'hunter2'\n"
      "save_tb_folder = 'tb'\n[aws]\nlogin = {user = 'me', secret = \"hunter3\"}\n"
      "hf_token = \"\"\"\nhunter4\n\"\"\"\n";
  const Job job = read_torchtitan_job(toml, "job.toml", {.gpus = 8});
  EXPECT_THAT(job.lines, AllOf(Contains("flavor = '8B'"), Contains("save_tb_folder = 'tb'"),
                               Contains("[aws]"), Each(Not(HasSubstr("hunter")))));
  JobOptions options{.gpus = 2};
  const Model model = job.model;
  options.model = &model;
  const Job json = read_deepspeed_job(
      R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, "wandb":
          {"enabled": true, "api_key": "hunter2"}, "hf_token": "hunter3"})",
      "ds.json", options);
  EXPECT_THAT(json.lines, AllOf(Contains(HasSubstr("gradient_accumulation_steps")),
                                Contains(HasSubstr("enabled")), Each(Not(HasSubstr("hunter")))));
  for (const Job* one : {&job, &json}) {
    for (const Remark& remark : one->remarks) EXPECT_THAT(remark.text, Not(HasSubstr("hunter")));
    for (const JobArgument& argument : one->arguments)
      EXPECT_THAT(argument.value, Not(HasSubstr("hunter")));
  }
  EXPECT_THAT(json.remarks, Contains(testing::Field(&Remark::text,
                                                    "not kept beside the plan, a secret: hf_token "
                                                    "api_key")));
}

// A list that would be left without its beginning: no line of such a text is kept.
TEST(KeptLines, AreATextOrNone) {
  const OpenLines open = open_lines("a = 1\nb = [{token = 'x'},\n {c = 2}]\n", "job.toml");
  EXPECT_THAT(open.lines, testing::IsEmpty());
  EXPECT_THAT(open.left_out, testing::ElementsAre("token"));
}

// Whatever file has it: TOML and JSON, in their lines and in what is said of their keys.
TEST(KeptLines, APasswordInAnAddressIsASecretOfEveryFile) {
  EXPECT_TRUE(holds_a_password("https://me:hunter2@host/x"));
  EXPECT_TRUE(holds_a_password("a,s3://b c,https://me:hunter2@host"));
  for (const char* open :
       {"https://host:80/me@home", "https://me@host/x", "me:hunter2@host", "://"})
    EXPECT_FALSE(holds_a_password(open)) << open;
  const OpenLines toml = open_lines(
      "save = 'https://me:hunter2@host/x'\nsteps = 3\nto = ['a', 'https://me:hunter2@host']\n",
      "job.toml");
  EXPECT_THAT(toml.lines, testing::ElementsAre("steps = 3"));
  EXPECT_THAT(toml.left_out, testing::ElementsAre("save", "to"));
  const Model model = read().model;
  const Job json = read_deepspeed_job(
      R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
          "from": ["a", "https://me:hunter2@host"]})",
      "ds.json", {.gpus = 2, .model = &model});
  EXPECT_THAT(json.lines, AllOf(Contains(HasSubstr("gradient_accumulation_steps")),
                                Each(Not(HasSubstr("hunter")))));
  for (const JobArgument& argument : json.arguments)
    EXPECT_THAT(argument.value, Not(HasSubstr("hunter")));
}

TEST(KeptLines, ASecretIsOneByItsLastWord) {
  for (const char* name : {"wandb-key", "hf_token", "api-secret", "password", "token"})
    EXPECT_TRUE(names_a_secret(name)) << name;
  for (const char* name : {"tokenizer-model", "moe-token-dispatcher-type", "kv-channels", "keys"})
    EXPECT_FALSE(names_a_secret(name)) << name;
}

}  // namespace
}  // namespace weir::kept_lines_test

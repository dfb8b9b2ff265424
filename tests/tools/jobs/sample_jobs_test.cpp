// Jobs of other tools as their repositories have them, a row a file: what is read of each is what
// its source states of the run.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/model/readers/layer_list.hpp"
#include "plan/text/text_file.hpp"
#include "tests/plan/samples.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"

namespace weir::sample_jobs_test {
namespace {

struct SampleJob {
  std::string file;
  Job (*read)(const std::string& text, const std::string& file, const JobOptions& options);
  JobOptions options;
  std::string expected;
};

std::string told(const Job& job) {
  const Plan& p = job.plan;
  return fmt::format("{} tp{} pp{} dp{} b{} M{} {} {}", parameter_count(job.model), p.tp, p.pp,
                     p.dp, p.micro_batch_size, p.microbatches, to_string(p.dtype),
                     recompute_word(p.recompute));
}

// BLOOM: 176,247,271,424 parameters on 384 GPUs (BigScience, 2022, table 4 and section 3.4.2);
// GPT-3 175B by Megatron's example, 128 GPUs; Llama 3 8B: 8,030,261,248 with its 128256 tokens
// (Grattafiori et al., 2024); BigScience's first 1.3B model on 64 V100; GPT-NeoX-20B on 96 A100
// (Black et al., 2022, section 2.3: micro-batches of 4, 1538 in a batch before rounding).
TEST(SampleJobs, AreReadAsTheirSourcesState) {
  const std::vector<SampleJob> jobs{{"megatron-args/bloom_176b_tr11.args",
                                     read_megatron_job,
                                     {.gpus = 384},
                                     "176247271424 tp4 pp12 dp8 b2 M128 bf16 full"},
                                    {"megatron-args/gpt3_175b.args",
                                     read_megatron_job,
                                     {.gpus = 128},
                                     "174615846912 tp8 pp16 dp1 b1 M1536 fp16 none"},
                                    {"megatron-args/llama3_8b_h100_fp8.args",
                                     read_megatron_job,
                                     {.gpus = 8, .vocabulary = 128256},
                                     "8030261248 tp1 pp1 dp8 b1 M16 bf16 none"},
                                    {"megatron-args/tr3_1b3.args",
                                     read_megatron_job,
                                     {.gpus = 64},
                                     "1278857216 tp4 pp4 dp4 b16 M16 fp16 full"},
                                    {"deepspeed/neox_20B.yml",
                                     read_neox_job,
                                     {.gpus = 96},
                                     "20554567680 tp2 pp4 dp12 b4 M32 fp16 full"}};
  for (const SampleJob& job : jobs) {
    const auto folder = sample_folder(std::filesystem::path(job.file).parent_path().string());
    if (!folder) GTEST_SKIP() << "no sample files beside the checkout";
    const auto file = *folder / std::filesystem::path(job.file).filename();
    const Job read = job.read(read_text_file(file), job.file, job.options);
    EXPECT_EQ(told(read), job.expected) << job.file;
  }
}

// Out and in again: the plan's arguments alone, and the whole script with nothing changed.
TEST(SampleJobs, GoOutAsTheyCameIn) {
  const auto folder = sample_folder("megatron-args");
  if (!folder) GTEST_SKIP() << "no sample files beside the checkout";
  for (const auto& [name, gpus] :
       std::initializer_list<std::pair<const char*, int>>{{"bloom_176b_tr11.args", 384},
                                                          {"gpt3_175b.args", 128},
                                                          {"llama3_8b_h100_fp8.args", 8},
                                                          {"tr3_1b3.args", 64}}) {
    const std::string script = read_text_file(*folder / name);
    const Job job = read_megatron_job(script, name, {.gpus = gpus});
    const ResolvedPlan plan = loaded(job.plan, job.model);
    const Patch patch = patch_megatron(plan, {script, name, {.gpus = gpus}});
    EXPECT_TRUE(patch.changes.empty()) << name << ": " << patch.changes.front().name;
    EXPECT_TRUE(patch.remarks.empty()) << name << ": " << patch.remarks.front().text;
    for (const ExportedJob& out : {export_megatron(plan, {}), patched_megatron(patch, plan, {})}) {
      const Job back = read_megatron_job(out.files.front().text, name, {});
      EXPECT_EQ(back.plan, job.plan) << name;
      EXPECT_EQ(to_layer_list(back.model), to_layer_list(job.model)) << name;
    }
    const Job whole =
        read_megatron_job(patched_megatron(patch, plan, {}).files.front().text, name, {});
    for (const JobArgument& argument : job.arguments) {
      const bool launches = argument.name == "nnodes" || argument.name == "nproc-per-node" ||
                            argument.name.starts_with("rdzv") ||
                            argument.name.starts_with("master") || argument.name == "node-rank";
      const auto same = std::ranges::find(whole.arguments, argument.name, &JobArgument::name);
      EXPECT_TRUE(launches || same != whole.arguments.end()) << name << ": " << argument.name;
    }
  }
}

}  // namespace
}  // namespace weir::sample_jobs_test

// Jobs of other tools through the command: into plans, and out again.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/tools/command.hpp"

namespace weir {
namespace {

using testing::HasSubstr;

class JobsCommand : public InFolder {
 protected:
  JobsCommand() {
    write("job.args",
          "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16\n"
          "--vocab-size 256 --make-vocab-size-divisible-by 1 --micro-batch-size 2 --global-batch-size 16 "
          "--sequence-parallel\n"
          "--pipeline-model-parallel-size 2 --lr 1e-4 --warp-drive 9\n");
  }
};

TEST_F(JobsCommand, AMegatronJobBecomesAPlanThatIsForecast) {
  const CommandResult made = weir("plan --from megatron job.args --dp 2 -o out/plan.json");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("weir: job.args: warp-drive: not understood: it may change time or memory\n"));
  EXPECT_THAT(made.out, HasSubstr("weir: job.args: sequence-parallel: "));
  EXPECT_THAT(made.out, HasSubstr("out/plan.json: K2 M4 b2 1f1b [3]\nout/plan.model.json\n"));
  EXPECT_EQ(weir("simulate out/plan.json").code, 0);
}

TEST_F(JobsCommand, OptionsAndFileDoNotContradictEachOther) {
  EXPECT_EQ(weir("plan --from megatron job.args").code, 2);
  const CommandResult both = weir("plan --from megatron job.args -K 4 -o plan.json");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.out, HasSubstr("--pp contradicts --from"));
  EXPECT_EQ(weir("plan --from abacus job.args -o plan.json").code, 2);
  EXPECT_EQ(weir("plan job.args --gpus 4").code, 2);
  EXPECT_EQ(weir("plan --from megatron none.args -o plan.json").code, 3);
}

// A schedule file for another K: the plan is refused, and the model of an earlier one stays as it was.
TEST_F(JobsCommand, ARefusedJobLeavesEarlierFilesUntouched) {
  ASSERT_EQ(weir("plan --from megatron job.args -o plan.json").code, 0);
  const std::string plan = read("plan.json"), model = read("plan.model.json");
  write("one.csv", "0F0,0B0\n");
  write("job.toml",
        "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 1\n[parallelism]\npipeline_parallel_degree = 2\n"
        "pipeline_parallel_schedule = 'PipelineScheduleSingle'\npipeline_parallel_schedule_csv = 'one.csv'\n");
  const CommandResult refused = weir("plan --from torchtitan job.toml -o plan.json");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out, HasSubstr("one.csv: is for K = 1, 1 stages and M = 1; the plan says 2, 2 and 1\n"));
  EXPECT_EQ(read("plan.json"), plan);
  EXPECT_EQ(read("plan.model.json"), model);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 5) << "a draft was left";
}

}  // namespace
}  // namespace weir

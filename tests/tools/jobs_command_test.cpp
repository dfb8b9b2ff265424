// Jobs of other tools through the command: into plans, and out again.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdlib>

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
  EXPECT_THAT(made.out, HasSubstr("out/plan.json: K2 dp2 M4 b2 1f1b [3]\nout/plan.model.json\n"));
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

// Out and in again gives the same plan; only the note and the model's name say where it came from.
TEST_F(JobsCommand, ExportsReadBack) {
  ASSERT_EQ(weir("plan --from megatron job.args --dp 2 --note '' -o plan.json").code, 0);
  const CommandResult out = weir("export plan.json --to megatron -o there");
  ASSERT_EQ(out.code, 0) << out.out;
  EXPECT_THAT(out.out, HasSubstr("there/megatron.sh\n\nlaunch, in there:\n  sh megatron.sh "));
  EXPECT_THAT(out.out, HasSubstr("\nnot carried:\n  data: "));
  ASSERT_EQ(weir("plan --from megatron there/megatron.sh --note 'from the megatron job job.args' -o again.json").code,
            0);
  std::string again = read("again.json"), plan = read("plan.json");
  const auto without_model = [](std::string& text) {  // its file and hash follow the name
    const auto first = text.find("  \"model\""), last = text.find("  \"seq_length\"");
    text.erase(first, last - first);
  };
  without_model(again);
  without_model(plan);
  EXPECT_EQ(again, plan);
}

TEST_F(JobsCommand, ExportedScriptsArePython) {
  ASSERT_EQ(weir("plan --from megatron job.args -o plan.json").code, 0);
  for (const char* to : {"torch", "deepspeed"}) {
    const std::string folder = std::string("out-") + to;
    ASSERT_EQ(weir("export plan.json --to " + std::string(to) + " -o " + folder).code, 0);
    const std::string file = (folder_ / folder / "pipeline.py").string();
    EXPECT_EQ(std::system(("python3 -c \"compile(open('" + file + "').read(), 'pipeline.py', 'exec')\"").c_str()), 0)
        << to;
  }
  const CommandResult json = weir("--json export plan.json --to torchtitan -o titan");
  EXPECT_THAT(json.out, HasSubstr("\"schema\": \"weir.export/1\""));
  EXPECT_THAT(read("titan/job.toml"), HasSubstr("[\"tok_embeddings\", \"layers.0\", \"layers.1\"]"));
  EXPECT_EQ(weir("export plan.json --to abacus").code, 2);
  EXPECT_EQ(weir("export none.json --to torch").code, 3);
}

}  // namespace
}  // namespace weir

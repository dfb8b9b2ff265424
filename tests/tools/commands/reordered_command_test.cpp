// Schedules whose gradients come out of micro-batch order: refused where nobody accepts them, and
// carried by the plan where someone does.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::reordered_command_test {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFlag = " --allow-reordered";

class ReorderedCommand : public InFolder {
 protected:
  ReorderedCommand() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":64,"n_head":2,"n_layer":3,)"
                       R"("vocab_size":512,"n_positions":8,"resid_pdrop":0})");
    // GPipe with the backward passes newest first, and as it is.
    write("newest.csv", "0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1F2,1B2,1B1,1B0\n");
    write("oldest.csv", "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
  }
  nlohmann::json json_of(const std::string& arguments) {
    const CommandResult done = weir("--json -q " + arguments + " 2> notes");
    EXPECT_EQ(done.code, 0) << read("notes");
    return nlohmann::json::parse(done.out);
  }
};

TEST_F(ReorderedCommand, APlanSaysThatItsOrderIsAccepted) {
  const std::string plan = "plan tiny.json -K 2 -M 3 --boundaries 3 --schedule ";
  const CommandResult refused = weir(plan + "newest.csv -o newest.json");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out, HasSubstr("0B1 comes after the gradient of a later micro-batch"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "newest.json"));

  ASSERT_EQ(weir(plan + "newest.csv -o newest.json" + kFlag).code, 0);
  ASSERT_EQ(weir(plan + "oldest.csv -o oldest.json").code, 0);
  EXPECT_TRUE(nlohmann::json::parse(read("newest.json")).at("allow_reordered"));
  EXPECT_THAT(read("oldest.json"), Not(HasSubstr("allow_reordered")));

  // The passes of a stage cost the same whichever comes first: the steps take equally long.
  EXPECT_EQ(json_of("simulate newest.json").at("step_time_s"),
            json_of("simulate oldest.json").at("step_time_s"));
}

// Sums of three gradients in the two orders differ by roundings: so do the losses after a step.
TEST_F(ReorderedCommand, ItRunsToTheSameLosses) {
  const std::string plan = "plan tiny.json -K 2 -M 3 --boundaries 3 --schedule ";
  ASSERT_EQ(weir(plan + "newest.csv -o newest.json" + kFlag).code, 0);
  ASSERT_EQ(weir(plan + "oldest.csv -o oldest.json").code, 0);
  const std::string run = " --steps 4 --warmup 0";
  const auto newest = json_of("run newest.json" + run).at("steps");
  const auto oldest = json_of("run oldest.json" + run).at("steps");
  ASSERT_EQ(newest.size(), oldest.size());
  EXPECT_EQ(newest[0].at("loss"), oldest[0].at("loss"));
  for (std::size_t i = 0; i < newest.size(); ++i) {
    const double loss = oldest[i].at("loss");
    EXPECT_THAT(newest[i].at("loss").get<double>(), DoubleNear(loss, 1e-5 * loss)) << "step " << i;
  }
}

// A word that says nothing, and one that is none.
TEST_F(ReorderedCommand, ThePlansWordIsTrueOrLeftOut) {
  ASSERT_EQ(
      weir("plan tiny.json -K 2 -M 3 --schedule newest.csv -o p.json" + std::string(kFlag)).code,
      0);
  std::string text = read("p.json");
  text.replace(text.find("\"allow_reordered\": true"), 23, "\"allow_reordered\": false");
  write("p.json", text);
  const CommandResult refused = weir("simulate p.json");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out,
              HasSubstr("allow_reordered: expected true (left out where it is false)"));
}

// A job runs its order as it stands; that its gradients are reordered is said.
TEST_F(ReorderedCommand, AJobsOrderIsTaken) {
  write("job.toml",
        "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 3\nseq_len = 128\n[parallelism]\n"
        "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 1\n"
        "pipeline_parallel_schedule = 'PipelineScheduleSingle'\n"
        "pipeline_parallel_schedule_csv = 'newest.csv'\n");
  const CommandResult made = weir("plan --from torchtitan job.toml --gpus 2 -o job.json");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("allow_reordered: gradients of newest.csv come out of"));
  EXPECT_TRUE(nlohmann::json::parse(read("job.json")).at("allow_reordered"));
  EXPECT_EQ(weir("simulate job.json --cluster dgx-h100").code, 0);
}

}  // namespace
}  // namespace weir::reordered_command_test

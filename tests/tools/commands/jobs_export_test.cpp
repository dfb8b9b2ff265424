// Plans out again as other tools' jobs: what is written, what nobody chose in it, and scripts that
// are patched.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/tools/commands/jobs_command.hpp"

namespace weir::jobs_export_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Out and in again gives the same plan; only the note and the model's name say where it came from.
TEST_F(JobsCommand, ExportsReadBack) {
  ASSERT_EQ(weir("plan --from megatron job.args --dp 2 --note '' -o plan.json").code, 0);
  const CommandResult out = weir("export plan.json --to megatron -o there");
  ASSERT_EQ(out.code, 0) << out.out;
  EXPECT_THAT(out.out, HasSubstr("there/megatron.sh\n\nlaunch, in there:\n  sh megatron.sh\n"));
  ASSERT_EQ(weir("plan --from megatron there/megatron.sh --note 'from the megatron job job.args' "
                 "-o again.json")
                .code,
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

// From a Hugging Face config: its rotary base, scaling and norm go out; an optimizer that nobody
// chose is said, one that came from a file is not.
TEST_F(JobsCommand, ExportsSayWhatNobodyChose) {
  write("llama.json",
        R"({"model_type":"llama","hidden_size":32,"intermediate_size":64,"num_hidden_layers":4,)"
        R"("num_attention_heads":4,"vocab_size":256,"max_position_embeddings":64,)"
        R"("rms_norm_eps":1e-6,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3",)"
        R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
        R"("original_max_position_embeddings":8192}})");
  ASSERT_EQ(weir("plan llama.json -K 2 -M 4 --schedule 1f1b -o llama.plan.json").code, 0);
  const CommandResult out = weir("export llama.plan.json --to megatron -o there");
  ASSERT_EQ(out.code, 0) << out.out;
  EXPECT_THAT(out.out, HasSubstr("  optimizer: none was chosen: the files have Weir's, adamw at a "
                                 "learning rate of 0.001"));
  const std::string script = read("there/megatron.sh");
  for (const char* argument : {"--rotary-base 500000", "--norm-epsilon 1e-06", "--use-rope-scaling",
                               "--rope-scaling-factor 8.0"})
    EXPECT_THAT(script, HasSubstr(argument));
  ASSERT_EQ(weir("plan --from megatron job.args --dp 2 -o plan.json").code, 0);
  EXPECT_EQ(weir("export plan.json --to megatron -o there").out.find("none was chosen"),
            std::string::npos);
}

// How tokens come to their experts is the stack's where the plan does not say it: the script has
// one way, and the export says that the forecast may be of another.
TEST_F(JobsCommand, ExportsSayHowTokensTravel) {
  const std::string plan = "plan " WEIR_SOURCE_DIR
                           "/tools/examples/models/mixtral-8x7b.json -K 2 --dp 8 --ep 8 --zero 1 "
                           "-M 4 --seq-length 4096 --dtype bf16 --attention fused -o experts.json";
  constexpr const char* kSaid = "moe-token-dispatcher-type: the plan leaves it to its stack";
  ASSERT_EQ(weir(plan).code, 0);
  EXPECT_THAT(weir("export experts.json --to megatron -o there").out, HasSubstr(kSaid));
  ASSERT_EQ(weir(plan + " --expert-dispatch alltoall").code, 0);
  EXPECT_THAT(weir("export experts.json --to megatron -o there").out,
              testing::Not(HasSubstr(kSaid)));
}

// The script stays the user's: what is not understood too.
TEST_F(JobsCommand, AScriptIsPatched) {
  ASSERT_EQ(weir("plan --from megatron job.args --dp 2 -o plan.json").code, 0);
  EXPECT_EQ(weir("export plan.json --patch job.args").out, "job.args: nothing to change\n");
  ASSERT_EQ(weir("plan plan.model.json -K 1 -M 2 -b 4 --dp 2 --schedule 1f1b -o other.json").code,
            0);
  const CommandResult patch = weir("export other.json --patch job.args");
  EXPECT_EQ(patch.code, 0);
  EXPECT_THAT(patch.out, testing::StartsWith("change  --micro-batch-size 4  (was 2)\n"
                                             "change  --pipeline-model-parallel-size 1  (was 2)\n"
                                             "\n--- job.args\n+++ job.args\n@@ "));
  const auto json = nlohmann::json::parse(weir("--json export other.json --patch job.args").out);
  EXPECT_EQ(json["schema"], "weir.patch/1");
  EXPECT_EQ(json["changes"][0]["before"], "2");
  EXPECT_EQ(json["devices"], 2);
  EXPECT_EQ(weir("export plan.json").code, 2);
  EXPECT_EQ(weir("export plan.json --to torch --patch job.args").code, 2);
  // Written whole, it is the plan.
  write("more.args", read("job.args") + " --warp-drive 9\n");
  ASSERT_EQ(weir("export other.json --to megatron --patch more.args -o whole").code, 0);
  EXPECT_THAT(read("whole/more.args"),
              testing::AllOf(HasSubstr("--warp-drive 9"), HasSubstr("--micro-batch-size 4 ")));
  EXPECT_THAT(weir("plan --from megatron whole/more.args --dp 2 -o back.json").out,
              HasSubstr("back.json: K1 dp2 M2 b4"));
}

TEST_F(JobsCommand, ExportedScriptsArePython) {
  ASSERT_EQ(weir("plan --from megatron job.args -o plan.json").code, 0);
  for (const auto& [to, script] : {std::pair("torch", "pipeline.py"),
                                   {"deepspeed", "pipeline.py"},
                                   {"torchtitan", "config_registry.py"}}) {
    const std::string folder = std::string("out-") + to;
    ASSERT_EQ(weir("export plan.json --to " + std::string(to) + " -o " + folder).code, 0);
    const std::string file = folder + "/" + script;
    const CommandResult compiled =
        shell("python3 -c \"compile(open('" + file + "').read(), 'pipeline.py', 'exec')\"");
    EXPECT_EQ(compiled.code, 0) << to << ": " << compiled.out;
  }
  const CommandResult json =
      weir("--json export plan.json --to torchtitan --torchtitan-version 0.2 -o titan");
  EXPECT_THAT(json.out, HasSubstr("\"schema\": \"weir.export/1\""));
  EXPECT_THAT(read("titan/job.toml"),
              HasSubstr("[\"tok_embeddings\", \"layers.0\", \"layers.1\"]"));
  EXPECT_EQ(weir("export plan.json --to abacus").code, 2);
  EXPECT_EQ(weir("export plan.json --to torch --torchtitan-version 0.2").code, 2);
  EXPECT_EQ(weir("export none.json --to torch").code, 3);
}

// slime has Megatron in itself: what its script says beside is nothing that pretrain_gpt.py takes,
// and what slime sets itself must be said to it.
TEST_F(JobsCommand, AnExportOfSlimesJobStartsMegatron) {
  write("slime.sh",
        "python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --rollout-batch-size 8 "
        "--global-batch-size 64 --hf-checkpoint /x --num-layers 4 --hidden-size 64 "
        "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
        "--micro-batch-size 2 --vocab-size 128 --swiglu --n-samples-per-prompt 8\n");
  ASSERT_EQ(weir("-q plan --from megatron slime.sh --gpus 8 -o plan.json").code, 0);
  ASSERT_EQ(weir("-q export plan.json --to megatron -o there").code, 0);
  const std::string script = read("there/megatron.sh");
  EXPECT_THAT(script, AllOf(HasSubstr("--bf16"), HasSubstr("--use-distributed-optimizer"),
                            HasSubstr("--num-layers 4"), Not(HasSubstr("rollout")),
                            Not(HasSubstr("actor-num")), Not(HasSubstr("hf-checkpoint"))));
}

}  // namespace
}  // namespace weir::jobs_export_test

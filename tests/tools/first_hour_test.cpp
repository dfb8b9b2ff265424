// What somebody meets who has just begun: mistyped words, long figures, narrow terminals, and a job
// that is several files.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/tools/commands/command.hpp"

namespace weir::first_hour_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kConfig =
    R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 4, "n_positions": 32,
        "vocab_size": 64})";

class FirstHour : public InFolder {};

TEST_F(FirstHour, AMistypedWordIsCorrected) {
  write("config.json", kConfig);
  const auto refused = [&](const std::string& arguments, int code, const std::string& meant) {
    const CommandResult result = weir("-q " + arguments);
    EXPECT_EQ(result.code, code) << arguments;
    EXPECT_THAT(result.out, HasSubstr("; did you mean " + meant + "?")) << arguments;
  };
  refused("sweeep", 2, "sweep");
  EXPECT_THAT(weir("help plann").out,
              HasSubstr("plann is no command of weir, and no topic of its help; did "
                        "you mean plan?"));
  EXPECT_EQ(weir("help plann").code, 2);
  EXPECT_EQ(weir("help plan").code, 0);
  for (const char* of_all : {"-q", "--json", "--format csv", "--seed 3", "--format=markdown -q"})
    EXPECT_THAT(weir(of_all + std::string(" help plan")).out, HasSubstr("weir plan")) << of_all;
  refused("plan config.json --partition optimall", 2, "optimal");
  refused("plan config.json --schedule 1f1bb", 2, "1f1b");
  refused("plan config.json --dtype bf61", 2, "bf16");
  refused("plan config.json --optimizer admaw", 2, "adamw");
  refused("plan config.json --attention fuse", 2, "fused");
  refused("plan config.json --recompute ful", 2, "full");
  refused("plan config.json --lr-decay-style cosin", 2, "cosine");
  refused("plan config.json --cluster dgx-h10", 3, "dgx-h100");
  refused("plan config.json --stack megatron-cor", 3, "megatron-core");
  // A part of a name is the names that have it.
  refused("plan config.json --cluster h100", 3, "dgx-h100, h100-96gb or h100-p5");
  refused("plan config.json --from megatorn", 2, "megatron");
  refused("reproduce blom", 2, "bloom");
  // Two names of one option.
  const CommandResult twice = weir("-q schedule 1f1b --svg a.svg --pdf b.pdf");
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.out, HasSubstr("weir: --svg or --pdf or --tikz: expected once, given 2 times"));
  // Nothing is near it, so nothing is guessed.
  EXPECT_THAT(weir("plan config.json --dtype quaternion").out, Not(HasSubstr("did you mean")));
  EXPECT_THAT(weir("--json plan config.json --dtype bf61").out,
              AllOf(HasSubstr("weir.error/1"), HasSubstr("did you mean bf16?")));
}

// Each command shows its examples, and the list of commands what their exit codes mean.
// A run's seed is its plan's: another is refused and not passed over.
TEST_F(FirstHour, ASeedIsTakenOrRefused) {
  write("config.json", kConfig);
  ASSERT_EQ(weir("plan config.json -K 2 -M 2 --seed 3 -o p.json").code, 0);
  EXPECT_THAT(read("p.json"), HasSubstr("\"seed\": 3"));
  for (const char* seeded : {"run p.json --steps 1 --seed 5", "--seed 5 run p.json --steps 1"}) {
    const CommandResult refused = weir(seeded);
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr("a run has its plan's")) << seeded;
  }
}

// Two plans of one job whose mini-batches are not alike: their steps are not, either.
TEST_F(FirstHour, UnlikeMiniBatchesAreSaid) {
  write("config.json", kConfig);
  ASSERT_EQ(weir("plan config.json -K 2 -M 2 -o a.json").code, 0);
  ASSERT_EQ(weir("plan config.json -K 2 -M 4 -o b.json").code, 0);
  const std::string told = weir("compare a.json b.json").out;
  EXPECT_THAT(told, HasSubstr("samples/s"));
  EXPECT_THAT(told, HasSubstr("the mini-batches have 2 and 4 samples"));
  EXPECT_THAT(weir("compare a.json a.json").out, Not(HasSubstr("samples/s")));
}

TEST_F(FirstHour, HelpHasExamplesAndExitCodes) {
  const std::string all = weir("help").out;
  EXPECT_THAT(all, HasSubstr("Exit codes: 0 done, 2 options that cannot be, 3 bad input, 4 no "
                             "feasible plan, 5 hardware or a component is missing, 6 the run "
                             "failed"));
  for (const char* command :
       {"model", "plan", "schedule", "profile", "calibrate", "simulate", "explain", "sweep", "run",
        "compare", "tune", "evaluate", "export", "reproduce"}) {
    EXPECT_THAT(all, HasSubstr("  " + std::string(command) + " "));
    EXPECT_THAT(weir("help " + std::string(command)).out,
                AllOf(HasSubstr("\nExamples:\n  weir " + std::string(command) + " ")));
  }
}

TEST_F(FirstHour, LinesAreAsWideAsAskedFor) {
  const auto widest = [](const std::string& text) {
    std::size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (line.size() > 4 && line.find_first_not_of(" 0123456789") == 4 && line[3] == ' ')
        most = std::max(most, line.size());
    return most;
  };
  const std::string drawn = "-q schedule 1f1b -K 2 -M 8 --uniform F=1ms,I=1ms,W=1ms,latency=0s ";
  const std::string whole = weir(drawn).out, folded = weir(drawn + "--width 40").out;
  EXPECT_GT(widest(whole), 60U);
  EXPECT_LE(widest(folded), 40U);
  EXPECT_GT(widest(folded), 20U);
  EXPECT_EQ(weir(drawn + "--width 7").code, 2);
  EXPECT_THAT(weir(drawn + "--width wide").out, HasSubstr("expected a length, as 3.3in"));
}

// 1.2 s a forward and 2.4 s a backward of 4096 micro-batches and 1 more are hours, not 1e+04 s.
TEST_F(FirstHour, LongDurationsAreHours) {
  const std::string out =
      weir("-q schedule 1f1b -K 2 -M 4096 --uniform F=1200ms,I=1200ms,W=1200ms,latency=0s").out;
  EXPECT_THAT(out, HasSubstr("step 4 h 6 min"));
  EXPECT_EQ(out.find("e+0"), std::string::npos);
}

// 4 x 8 devices over 2 x 2 of sizes.sh: 8 replicas, and what is not carried goes with the plan.
TEST_F(FirstHour, AScriptsFilesAreRead) {
  std::filesystem::create_directories(folder_ / "jobs");
  write("jobs/sizes.sh", "TP=2\nPP=2\nSIZES=\"--num-layers 4 --hidden-size 64\"\n");
  write("jobs/run.sh",
        "source $(dirname $0)/sizes.sh\n"
        "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py $SIZES --num-attention-heads 4 "
        "--seq-length 32 --max-position-embeddings 32 --vocab-size 64 --micro-batch-size 1 "
        "--global-batch-size 16 --bf16 --tensor-model-parallel-size $TP "
        "--pipeline-model-parallel-size $PP --warp-drive 9\n");
  const CommandResult read = weir("plan jobs/run.sh --from megatron -o plan.json");
  EXPECT_EQ(read.code, 0) << read.out;
  EXPECT_THAT(read.out, AllOf(HasSubstr("jobs/sizes.sh is read"), HasSubstr("K2 tp2 dp8 M2")));
  EXPECT_THAT(this->read("plan.json"), HasSubstr("\"left_out\": [\n      \"warp-drive\"\n    ]"));
  EXPECT_THAT(weir("export plan.json --to deepspeed -o out").out,
              HasSubstr("job: of the megatron job that the plan came from these are not in the "
                        "files: warp-drive"));
}

// A job goes out with all that it came in with, whatever a plan has words for; what the plan's file
// changes since is said. Sequence: read, exported as it is, changed, exported, exported elsewhere.
TEST_F(FirstHour, AJobGoesOutWhole) {
  write("job.args",
        "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32\n"
        "--max-position-embeddings 64 --vocab-size 64 --micro-batch-size 1\n"
        "--global-batch-size 16 --bf16 --lr 3e-4 --min-lr 1e-5 --lr-decay-style WSD\n"
        "--lr-warmup-init 1e-6 --rotary-percent 0.5 --position-embedding-type rope\n"
        "--apply-layernorm-1p --squared-relu --eod-mask-loss --data-path '0.5 a b'\n"
        "--my_own_word x --attention-backend flash\n");
  ASSERT_EQ(weir("-q plan job.args --from megatron --gpus 2 -o plan.json").code, 0);
  ASSERT_EQ(weir("-q export plan.json --to megatron -o same").code, 0);
  const std::string same = read("same/megatron.sh");
  for (const char* line :
       {"--min-lr 1e-5 ", "--lr-decay-style WSD ", "--lr-warmup-init 1e-6 ",
        "--rotary-percent 0.5 ", "--apply-layernorm-1p ", "--squared-relu ", "--eod-mask-loss ",
        "--data-path '0.5 a b' ", "--my_own_word x ", "--attention-backend flash ",
        "--max-position-embeddings 64 ", "--lr 3e-4 "})
    EXPECT_THAT(same, HasSubstr(line));
  std::string plan = read("plan.json");
  const auto put = [&plan](const std::string& before, const std::string& after) {
    ASSERT_NE(plan.find(before), std::string::npos) << before;
    plan.replace(plan.find(before), before.size(), after);
  };
  put("\"microbatches\": 8", "\"microbatches\": 4");
  put("\"learning_rate\": 0.0003", "\"learning_rate\": 0.0002");
  write("plan.json", plan);
  const CommandResult changed = weir("-q export plan.json --to megatron -o other");
  EXPECT_THAT(changed.out, HasSubstr("against the job's own arguments:\n"
                                     "change  --global-batch-size 8  (was 16)\n"
                                     "change  --lr 0.0002  (was 3e-4)\n"));
  EXPECT_THAT(read("other/megatron.sh"),
              AllOf(HasSubstr("--global-batch-size 8 "), HasSubstr("--lr-decay-style WSD ")));
  EXPECT_THAT(weir("-q export plan.json --to deepspeed -o elsewhere").out,
              HasSubstr("these are not in the files: data-path eod-mask-loss"));
}

}  // namespace
}  // namespace weir::first_hour_test

// Launch scripts followed: what is filled in, which branches are read, and what is said of the
// rest.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/shell/arithmetic.hpp"
#include "tools/jobs/shell/slurm.hpp"

namespace weir::shell_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The words of the last command that a script starts.
std::vector<std::string> last_words(const std::string& text,
                                    const ShellEnvironment& environment = {}) {
  const ShellScript script = read_script(text, "job.sh", environment);
  return script.commands.empty() ? std::vector<std::string>{} : script.commands.back();
}

std::string remarks_of(const std::string& text) {
  std::string all;
  for (const ShellRemark& remark : read_script(text, "job.sh", {}).remarks)
    all += std::to_string(remark.line) + ": " + remark.text + "\n";
  return all;
}

TEST(ShellSum, IsCsIntegers) {
  const auto sum = [](std::string_view text) {
    return shell_sum(text, [](std::string_view name) -> std::optional<std::string> {
      if (name == "A") return "6";
      if (name == "LOOP") return "LOOP";
      return std::nullopt;
    });
  };
  EXPECT_EQ(sum("2 + 3 * 4"), 14);
  EXPECT_EQ(sum("(2 + 3) * A / 4"), 7);
  EXPECT_EQ(sum("-A % 4"), -2);
  EXPECT_EQ(sum("2 ** 10 >= 1024 ? 1 : 0"), 1);
  EXPECT_EQ(sum("10 - 4 - 3"), 3);
  EXPECT_EQ(sum("1 / 0"), std::nullopt);
  EXPECT_EQ(sum("B + 1"), std::nullopt);
  EXPECT_EQ(sum("9223372036854775807 + 1"), std::nullopt);
  EXPECT_EQ(sum("LOOP"), std::nullopt);
  EXPECT_EQ(sum(std::string(100'000, '(')), std::nullopt);
}

// As bash does in a locale of UTF-8: of é's two bytes none goes alone.
TEST(ShellScript, CharactersAreWhole) {
  EXPECT_THAT(last_words("X=aéb€\nrun ${X:1:1} ${X#?} ${X%?} ${X: -1} ${#X} ${X//[^a]/-}\n"),
              ElementsAre("run", "é", "éb€", "aéb", "€", "4", "a---"));
  EXPECT_THAT(last_words("A=(1 2)\nIFS=é\nrun \"${A[*]}\"\n"), ElementsAre("run", "1é2"));
}

TEST(ShellScript, SumsDefaultsAndTheEnvironmentAreFilledIn) {
  const std::string text =
      "GPUS=8\nNNODES=${NNODES:-4}\nWORLD=$(($GPUS*$NNODES))\nTP=2; PP=4\n"
      "DP=$((WORLD / (TP * PP)))\nMBS=${MBS-1}\nGBS=`expr $MBS \\* $DP \\* 16`\n"
      "HALF=$(echo \"$GBS/2\" | bc)\n"
      "run --dp $DP --gbs ${GBS} --half $HALF --rank $RANK --name ${NAME:=x}-${NAME}\n";
  EXPECT_THAT(last_words(text), ElementsAre("run", "--dp", "4", "--gbs", "64", "--half", "32",
                                            "--rank", "$RANK", "--name", "x-x"));
  EXPECT_THAT(last_words(text, {{"NNODES", "2"}}),
              ElementsAre("run", "--dp", "2", "--gbs", "32", "--half", "16", "--rank", "$RANK",
                          "--name", "x-x"));
  EXPECT_THAT(read_script(text, "job.sh", {{"NNODES", "2"}, {"UNUSED", "3"}}).taken,
              ElementsAre("NNODES"));
}

TEST(ShellScript, ArraysAndTextsAreTheirWordsWhereTheyAreUsed) {
  EXPECT_THAT(
      last_words("A=(\n --x 1  # one\n --y \"two words\"\n)\nA+=(--z)\nB=\"--p 3 \\\n  --q\"\n"
                 "NEVER=(--never 1)\nrun ${A[@]} $B ${#A[@]} ${A[1]} > log 2>&1 | tee log\n"),
      ElementsAre("tee", "log"));
  const ShellScript script = read_script(
      "A=(--x 1 --y \"two words\")\nA+=(--z)\nB=\"--p 3 --q\"\nNEVER=(--never 1)\n"
      "run \"${A[@]}\" $B ${#A[@]} ${A[1]} 2>&1 | tee log\n",
      "job.sh", {});
  ASSERT_EQ(script.commands.size(), 2U);
  EXPECT_THAT(script.commands[0], ElementsAre("run", "--x", "1", "--y", "two words", "--z", "--p",
                                              "3", "--q", "5", "1", "2>&1"));
  EXPECT_THAT(script.unused, ElementsAre(ElementsAre("--never", "1")));
}

TEST(ShellScript, ABranchIsReadWhereItsConditionHolds) {
  const std::string text =
      "SIZE=${SIZE:-7B}\nif [ \"$SIZE\" == 7B ]; then\n  L=32\nelif [[ $SIZE == 13* ]]; then\n"
      "  L=40\nelse\n  echo unknown; exit 1\nfi\n"
      "[[ $L -gt 35 ]] && EXTRA=\"--big\"\n[ $L -gt 35 ] || EXTRA=\"--small\"\n"
      "case $SIZE in\n  7B|8B) H=4096 ;;\n  *) H=5120 ;;\nesac\nrun --l $L --h $H $EXTRA\n";
  EXPECT_THAT(last_words(text), ElementsAre("run", "--l", "32", "--h", "4096", "--small"));
  EXPECT_THAT(last_words(text, {{"SIZE", "13B"}}),
              ElementsAre("run", "--l", "40", "--h", "5120", "--big"));
  EXPECT_THAT(last_words(text, {{"SIZE", "70B"}}),
              ElementsAre("echo", "unknown"));  // it ends itself
  EXPECT_EQ(remarks_of(text), "");
}

// What nothing here knows: an else before its if, nothing that ends the script, and a line of it.
TEST(ShellScript, WhatIsNotKnownIsSaid) {
  EXPECT_THAT(last_words("if [ $# -ne 1 ]; then\n  echo usage\n  exit 1\nfi\nrun --x 1\n"),
              ElementsAre("run", "--x", "1"));
  EXPECT_THAT(last_words("if [ -n \"$SLURM_JOB_ID\" ]; then\n  N=8\nelse\n  N=1\nfi\nrun --n $N\n"),
              ElementsAre("run", "--n", "1"));
  EXPECT_EQ(remarks_of("\nif [ -n \"$ID\" ]; then\n  N=8\nelse\n  N=1\nfi\nrun --n $N\n"),
            "2: if [ -n \"$ID\" ]: not known here; its else is read\n");
  EXPECT_EQ(remarks_of("if [[ $A == b ]]; then\n  ARGS=\"--x 1\"\nfi\nrun $ARGS\n"),
            "1: if [[ $A == b ]]: not known here; the lines from 2 are read\n");
  EXPECT_EQ(remarks_of("if [ ! -d out ]; then mkdir out; fi\nrun --x 1\n"), "");
  EXPECT_EQ(remarks_of("for TP in 1 2 4; do\n  run --tp $TP\ndone\n"),
            "1: a loop: read once, with TP=1\n");
  EXPECT_EQ(remarks_of("source ./sizes.sh\nrun --x 1\n"),
            "1: source ./sizes.sh: not followed, what it sets is not known\n");
  EXPECT_THAT(last_words("run --x 1 $@\n"), ElementsAre("run", "--x", "1"));
}

TEST(ShellScript, FunctionsAndCommandsInQuotesAreFollowed) {
  EXPECT_THAT(last_words("train() {\n  local TP=$1\n  run --tp $TP --n $#\n}\ntrain 4 5\n"),
              ElementsAre("run", "--tp", "4", "--n", "2"));
  EXPECT_THAT(last_words("CMD=\"train.py --x 1\"\nsrun --nodes 2 bash -c 'python $CMD --y 2'\n"),
              ElementsAre("srun", "--nodes", "2", "bash", "-c", "python", "train.py", "--x", "1",
                          "--y", "2"));
  EXPECT_THAT(last_words("CMD=\"run --x 1\"\neval \"$CMD\"\n"), ElementsAre("run", "--x", "1"));
}

// Files that the script sources, in place of a disk.
ShellScript with_files(const std::string& text, const std::map<std::string, std::string>& files) {
  return read_script(text, "job.sh", {}, [&](const std::string& path) -> std::optional<ShellFile> {
    const auto file = files.find(path);
    if (file == files.end()) return std::nullopt;
    return ShellFile{"disk/" + path, file->second};
  });
}

TEST(ShellScript, SourcedFilesAreFollowed) {
  const std::map<std::string, std::string> files = {
      {"sizes.sh", "HIDDEN=512\nlayers() { L=$1; }\n[ -n \"$1\" ] && HEADS=$1\nreturn\nHIDDEN=1\n"},
      {"conf/job.sh", "MODEL=$HIDDEN\nsource `pwd`/sizes.sh 8\n"},
      {"start.sh", "run --h $HIDDEN\nexit 0\n"},
      {"broken.sh", "if true; then\n"}};
  EXPECT_THAT(with_files("source ./sizes.sh\nlayers 12\nrun --h $HIDDEN --l $L\n",
                         {{"./sizes.sh", files.at("sizes.sh")}})
                  .commands.back(),
              ElementsAre("run", "--h", "512", "--l", "12"));
  // A folder that is not known is the script's; a sourced file's own words are its "$1".
  const ShellScript nested = with_files(
      "HIDDEN=256\n. \"$(dirname \"$0\")/conf/job.sh\"\nrun --h $HIDDEN --m $MODEL --a $HEADS\n",
      files);
  EXPECT_THAT(nested.commands.back(), ElementsAre("run", "--h", "512", "--m", "256", "--a", "8"));
  ASSERT_EQ(nested.remarks.size(), 2U);
  EXPECT_EQ(nested.remarks[0].text,
            "source $(dirname \"$0\")/conf/job.sh: disk/conf/job.sh is read");
  EXPECT_EQ(nested.remarks[1].text,
            "disk/conf/job.sh line 2: source `pwd`/sizes.sh: disk/sizes.sh is read");
  EXPECT_EQ(with_files("HIDDEN=64\nsource start.sh\nrun --h 1\n", files).commands.size(), 1U);
  EXPECT_THAT(complaint([&] { with_files("source broken.sh\n", files); }),
              "disk/broken.sh: line 1: if is not closed");
  // Its name is not known: nothing is guessed.
  EXPECT_THAT(with_files("source conf/$MODEL.sh\nrun --x 1\n", files).remarks[0].text,
              HasSubstr("not followed"));
}

TEST(ShellScript, LoopsGoOnAsLongAsTheirConditionsHold) {
  EXPECT_THAT(last_words("I=0\nwhile [ $I -lt 3 ]; do\n  A+=(--x $I)\n  I=$((I + 1))\ndone\n"
                         "run ${A[@]}\n"),
              ElementsAre("run", "--x", "0", "--x", "1", "--x", "2"));
  EXPECT_THAT(last_words("set -- --tp 4 --pp 2\nwhile [[ $# -gt 0 ]]; do\n  case $1 in\n"
                         "    --tp) TP=$2; shift 2 ;;\n    --pp) PP=$2; shift 2 ;;\n  esac\ndone\n"
                         "run --t $TP --p $PP\n"),
              ElementsAre("run", "--t", "4", "--p", "2"));
  EXPECT_THAT(last_words("N=1; until (( N >= 8 )); do N=$((N * 2)); done\nrun --n $N\n"),
              ElementsAre("run", "--n", "8"));
  const std::string nested =
      "for A in 1 2 3; do\n  for B in 4 5; do\n    if [ $A -eq 1 ]; then continue 2; fi\n"
      "    if [ $B -eq 5 ]; then break 2; fi\n    GOT=\"$GOT $A$B\"\n  done\ndone\n"
      "run --got $GOT --a $A\n";
  EXPECT_THAT(last_words("GOT=\n" + nested), ElementsAre("run", "--got", "24", "--a", "2"));
  EXPECT_EQ(remarks_of("while true; do run --x 1; break; done\n"), "");
  EXPECT_EQ(remarks_of("while [ $# -gt 0 ]; do TP=$1; shift; done\nrun --x 1\n"),
            "1: while [ $# -gt 0 ]: not known here; its lines are not read\n");
  EXPECT_EQ(remarks_of("while getopts s: O; do S=$OPTARG; done\nrun --x 1\n"),
            "1: while getopts s: O: not known here; its lines are not read\n");
  EXPECT_EQ(remarks_of("while true; do run --x 1; done\n"),
            "1: while true: starts a command again; it is read no further\n");
  EXPECT_EQ(remarks_of("A=1\nwhile [ $A = 1 ]; do B=2; done\nrun --x 1\n"),
            "2: while [ $A = 1 ]: read 256 times\n");
}

TEST(ShellScript, AHereDocumentIsTheFileThatItIsPutInto) {
  const ShellScript script = read_script(
      "STAGE=1\nOUT=./ds.$ID.json\ncat <<EOT > $OUT\n{\"zero\": {\"stage\": $STAGE}}\nEOT\n"
      "run --config ./ds.$ID.json\n",
      "job.sh", {});
  ASSERT_TRUE(script.written.contains("./ds.$ID.json"));
  EXPECT_EQ(script.written.at("./ds.$ID.json"), "{\"zero\": {\"stage\": 1}}\n");
}

TEST(ShellScript, IsBounded) {
  EXPECT_EQ(complaint([] { last_words("if true; then\n run\n"); }),
            "job.sh: line 1: if is not closed");
  EXPECT_EQ(complaint([] { last_words("A=(1 2\n"); }), "job.sh: line 1: a bracket is not closed");
  std::string doubles = "A=aaaaaaaa\n";
  for (int i = 0; i < 60; ++i) doubles += "A=$A$A\n";
  EXPECT_EQ(complaint([&] { last_words(doubles + "run $A\n"); }),
            "job.sh: takes too many bytes to be followed");
  EXPECT_THAT(last_words("f() { f; }\nf\nrun --x 1\n"), ElementsAre("run", "--x", "1"));
  EXPECT_THAT(complaint([] { last_words("g() { f; f; f; }\nf() { g; g; g; }\nf\n"); }),
              HasSubstr("commands are followed"));
}

TEST(Slurm, AsksForDevices) {
  const auto devices = [](const std::string& lines) { return slurm_request(lines).devices(); };
  EXPECT_EQ(devices("#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\n"), 32);
  EXPECT_EQ(devices("#SBATCH -N 4\n#SBATCH --gres=gpu:a100:4  # all\n"), 16);
  EXPECT_EQ(devices("#SBATCH -N2 --ntasks-per-node=4 --gpus-per-task=1\n"), 8);
  EXPECT_EQ(devices("#SBATCH -G 6\n"), 6);
  EXPECT_EQ(devices("#SBATCH -G 6 -\n"), 6);  // a lone dash was out of range
  EXPECT_EQ(devices("#SBATCH --nodes=NUM_NODES\n#SBATCH --gpus-per-node=8\n"), 8);
  EXPECT_EQ(devices("#SBATCH --nodes=4\n"), std::nullopt);
  EXPECT_THAT(last_words("#SBATCH --nodes=4\nrun --n $SLURM_NNODES\n"),
              ElementsAre("run", "--n", "4"));
}

// Of several commands the one that says a model's size is the job; what others are given, and what
// no command uses, is none of it.
TEST(Arguments, AreTheTrainingCommandsOwn) {
  Arguments a(
      "OTHER=(--hidden-size 7)\npython tools/preprocess_data.py --seq-length 5 --workers 9\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 >> log\n",
      "job.sh");
  EXPECT_EQ(a.integer("hidden-size", 1, 100), 64);
  EXPECT_FALSE(a.flag("seq-length"));
  EXPECT_EQ(a.program(), "pretrain_gpt.py");
  EXPECT_THAT(a.unread(), ElementsAre("nproc-per-node", "num-layers"));
}

// A list as bash joins it: by printf into a variable, by the first character of IFS in a subshell
// whose IFS goes with it, by a loop as C has it, by seq.
TEST(ShellScript, ListsAreJoinedAsBashDoes) {
  const auto words = [](const std::string& text) { return last_words(text); };
  EXPECT_THAT(words("printf -v L '[%s]' \"1,0\"\nrun --l \"$L\"\n"),
              ElementsAre("run", "--l", "[1,0]"));
  EXPECT_THAT(words("A=(1 0 2)\nrun --l \"$(IFS=', '; echo \"${A[*]}\")\" --m \"${A[*]}\"\n"),
              ElementsAre("run", "--l", "1,0,2", "--m", "1 0 2"));
  EXPECT_THAT(words("A=()\nfor ((i=0; i<4; i++)); do\n  if (( i < 2 )); then A+=(0); else A+=(1); "
                    "fi\ndone\nIFS=,\nrun --l \"${A[*]}\"\n"),
              ElementsAre("run", "--l", "0,0,1,1"));
  EXPECT_THAT(words("A=(1 0)\nL=$(printf '%s,' \"${A[@]}\")\nrun --l \"[${L%,}]\"\n"),
              ElementsAre("run", "--l", "[1,0]"));
  EXPECT_THAT(words("for i in $(seq 0 2 4); do L+=\"$i;\"; done\nrun --l \"$L\"\n"),
              ElementsAre("run", "--l", "0;2;4;"));
  EXPECT_THAT(words("printf -v L '%s%s' a\nrun --l $L\n"), ElementsAre("run", "--l", "a"));
  EXPECT_THAT(words("f() { local N=3; for ((i=0; i<N; i++)); do echo -n \"$i \"; done; }\n"
                    "run --l \"$(f)\"\n"),
              ElementsAre("run", "--l", "0 1 2 "));
}

}  // namespace
}  // namespace weir::shell_test

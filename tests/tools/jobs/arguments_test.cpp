// Shell scripts as commands and arguments.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::arguments_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShellCommands, WordsQuotesCommentsAndVariables) {
  const auto commands = shell_commands(
      "A=4  # four\n"
      "run --x $A --y \"two ${A} words\" \\\n  '--z $A'; next ${B:-5} ${C}\n",
      "job.sh");
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_THAT(commands[0], ElementsAre("run", "--x", "4", "--y", "two 4 words", "--z $A"));
  EXPECT_THAT(commands[1], ElementsAre("next", "5", "${C}"));
  const auto here =
      shell_commands("cat <<'EOT' > ds.json\nit's --data\n  EOT\nrun --x 1 <<< 2\n", "job.sh");
  ASSERT_EQ(here.size(), 2U);
  EXPECT_THAT(here[0], ElementsAre("cat", ">", "ds.json"));
  EXPECT_THAT(here[1], ElementsAre("run", "--x", "1", "2"));
  EXPECT_EQ(complaint([] { static_cast<void>(shell_commands("a\nb 'c\n", "job.sh")); }),
            "job.sh: line 2: a quote is not closed");
}

TEST(Arguments, TheLastCountsAndWhatNobodyReadIsKnown) {
  Arguments a("--lr 1 --lr=2 --some_flag --count 1_000 --beyond 7\n", "job.args");
  EXPECT_EQ(a.number_or("lr", 0, 0, 10), 2);
  EXPECT_TRUE(a.flag("some-flag"));
  EXPECT_EQ(a.integer("count", 0, 5000), 1000);
  EXPECT_THAT(a.unread(), ElementsAre("beyond"));
  EXPECT_THAT(a.ambiguous(), ElementsAre("lr"));
  EXPECT_EQ(complaint([&] { static_cast<void>(a.integer("beyond", 0, 5)); }),
            "job.args: --beyond: expected an integer from 0 to 5, found 7");
}

// As NVIDIA's Llama scripts write them: option and value in one quoted word of an array. An array
// used without quotes is split at blanks; quotes inside such a word stay there, and are of no use.
// Python would refuse them; what they stand for is not known, and they are named.
TEST(Arguments, DashesWithoutANameAreSaid) {
  const Job job = read_megatron_job(
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 --=bf16 32 ---swiglu -- "
      "--bf16 '--untie(|)*' 4",
      "job.sh", {});
  std::string said;
  for (const Remark& remark : job.remarks) said += remark.text + "\n";
  EXPECT_THAT(said, testing::HasSubstr("--=bf16: not understood, it names no argument"));
  EXPECT_THAT(said, testing::HasSubstr("---swiglu: not understood, it names no argument"));
  EXPECT_THAT(said, testing::HasSubstr("--untie(|)*: not understood, it names no argument"));
  EXPECT_EQ(said.find("--: not understood"), std::string::npos);
  EXPECT_EQ(job.plan.dtype, Dtype::bf16);
}

TEST(Arguments, AQuotedWordMayHoldOptionAndValue) {
  Arguments a(
      "ARGS=(\n  \"--vocab-size 128256\"\n  \"--split '99,1,0'\"\n  '--bf16'\n)\n"
      "ARGS+=(\"--tp_size 2 --lr 1e-4\")\n"
      "MORE=\"--cp-size 2\"\nMORE+=\" --seed 5\"\n"
      "run \"${ARGS[@]}\" $MORE rest --name=\"two words\" --note \"more --or less\" --$KIND 3\n"
      "srun bash -c 'run.py --rounds 3'; echo ----- \"give --nothing more\"\n",
      "job.sh");
  EXPECT_EQ(a.integer("vocab-size", 1, 1 << 20), 128256);
  EXPECT_EQ(a.text("split"), "99,1,0");
  EXPECT_TRUE(a.flag("bf16"));
  EXPECT_EQ(a.integer("tp-size", 1, 8), 2);
  EXPECT_EQ(a.number_or("lr", 0, 0, 1), 1e-4);
  EXPECT_EQ(a.integer("cp-size", 1, 8), 2);
  EXPECT_EQ(a.integer("seed", 1, 8), 5);
  EXPECT_EQ(a.text("name"), "two words");
  EXPECT_EQ(a.text("note"), "more --or less");
  EXPECT_EQ(a.integer("rounds", 1, 8), 3);
  EXPECT_THAT(a.unread(), ElementsAre("$KIND"));
  EXPECT_THAT(a.ambiguous(), IsEmpty());
}

// Where output and input go is the shell's, in a quoted script too: they are no argument's value,
// so that what is kept of it reads again as what it was.
TEST(Arguments, RedirectionsOfAQuotedScriptAreTheShells) {
  Arguments a("bash -c 'run.py --rounds 3 > log --depth 2 2> errors < -1 --last 4'\n", "job.sh");
  EXPECT_EQ(a.integer("rounds", 1, 8), 3);
  EXPECT_EQ(a.integer("depth", 1, 8), 2);
  EXPECT_EQ(a.integer("last", 1, 8), 4);
  EXPECT_THAT(a.unread(), IsEmpty());
  EXPECT_THAT(a.ambiguous(), IsEmpty());
}

// Of arrays that no command uses, too.
TEST(Arguments, RedirectionsAmongUnusedWordsAreTheShells) {
  Arguments a("ARGS=(--rounds 3 \"--depth 2 < -1 2> log\" --last 4)\n", "job.sh");
  EXPECT_EQ(a.integer("rounds", 1, 8), 3);
  EXPECT_EQ(a.integer("depth", 1, 8), 2);
  EXPECT_EQ(a.integer("last", 1, 8), 4);
  EXPECT_THAT(a.unread(), IsEmpty());
  EXPECT_THAT(a.ambiguous(), IsEmpty());
}

}  // namespace
}  // namespace weir::arguments_test

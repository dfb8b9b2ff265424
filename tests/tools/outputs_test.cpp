// What a command writes: never over what it was given to read, and never lost in silence.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/commands/command.hpp"

namespace weir::outputs_test {
namespace {

using testing::HasSubstr;

class Outputs : public InFolder {
 protected:
  Outputs() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                       R"("n_positions":8})");
  }
  // The command is refused, and the file is what it was.
  void expect_kept(const std::string& file, const std::string& arguments) {
    const std::string before = read(file);
    const CommandResult result = weir(arguments);
    EXPECT_EQ(result.code, 2) << arguments << "\n" << result.out;
    EXPECT_THAT(result.out, HasSubstr("would be written over")) << arguments;
    EXPECT_EQ(read(file), before) << arguments;
  }
};

TEST_F(Outputs, AreNeverInputs) {
  expect_kept("tiny.json", "plan tiny.json -o tiny.json");
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  ASSERT_EQ(weir("profile tiny.json -b 1 -o forecast.json -q").code, 0);
  expect_kept("forecast.json", "simulate plan.json --costs forecast.json -o .");
  expect_kept("plan.json", "sweep tiny.json --baseline plan.json -K 2 -o ./plan.json");
  // A plan's model is read too, under another name for the same file.
  std::filesystem::create_symlink("tiny.json", folder_ / "predicted.json");
  expect_kept("tiny.json", "simulate plan.json -o .");
}

// Of a trace the plan's model and schedule are read, and of a plan in compare.
TEST_F(Outputs, AreNotWhatATracesPlanNames) {
  ASSERT_EQ(weir("schedule 1f1b -K 2 -M 4 --csv mine.csv").code, 0);
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --schedule mine.csv -o plan.json").code, 0);
  ASSERT_EQ(weir("simulate plan.json -o p").code, 0);
  ASSERT_EQ(weir("run plan.json --backend synthetic --steps 2 -o r").code, 0);
  std::filesystem::copy_file(WEIR_SOURCE_DIR "/tests/fuzz/seeds/costs/measured.json",
                             folder_ / "costs.json");
  for (const std::string input : {"tiny.json", "mine.csv"}) {
    expect_kept(input, "calibrate r/measured.json --costs costs.json -o " + input);
    expect_kept(input, "compare p/predicted.json r/measured.json --perfetto " + input);
  }
}

// A link that leads nowhere, or to itself, is neither a folder nor ours to take away.
TEST_F(Outputs, ALinkThatLeadsNowhereStays) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  std::filesystem::create_symlink("nowhere/at/all", folder_ / "lost");
  std::filesystem::create_symlink("round", folder_ / "round");
  for (const std::string link : {"lost", "round"}) {
    const CommandResult result = weir("run plan.json --backend synthetic --steps 1 -o " + link);
    EXPECT_EQ(result.code, 3) << result.out;
    EXPECT_THAT(result.out, testing::StartsWith("weir: " + link + ": cannot be written: "));
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ / link)) << link;
  }
}

// The picture of mine.csv is mine.svg, and its data is not mine.csv.
TEST_F(Outputs, APicturesDataHasANameOfItsOwn) {
  ASSERT_EQ(weir("schedule 1f1b -K 2 -M 3 --csv mine.csv").code, 0);
  const std::string before = read("mine.csv");
  ASSERT_EQ(weir("schedule mine.csv --svg mine.svg").code, 0);
  EXPECT_EQ(read("mine.csv"), before);
  EXPECT_THAT(read("mine.data.csv"), HasSubstr("rank"));
  expect_kept("mine.csv", "schedule mine.csv --csv mine.csv");
}

// Of two outputs of one name the first would be lost: nothing is computed, nothing written. A
// picture's data is an output too, and a file is itself by whatever name.
TEST_F(Outputs, AreWrittenByOneOptionEach) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  std::filesystem::create_directory(folder_ / "d");
  const auto refused = [this](const std::string& command, const std::string& options,
                              const std::string& file) {
    const CommandResult result = weir(command + " " + options);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, HasSubstr("both write " + file)) << command << options;
    EXPECT_FALSE(std::filesystem::exists(folder_ / file)) << command << options;
    return result.out;
  };
  const std::string sweep = "sweep tiny.json -K 1,2 -M 4";
  EXPECT_EQ(refused(sweep, "-o same.json --report same.json", "same.json"),
            "weir: --output and --report both write same.json: expected a file each\n");
  refused(sweep, "--report rp.svg --pareto d/../rp.svg", "rp.svg");
  const std::string layout = "layout tiny.json --mesh d=2 --rules batch:d -b 2";
  refused(layout, "--svg q.svg --program q.svg", "q.svg");
  EXPECT_THAT(refused(layout, "--svg q.svg --program q.data.csv", "q.data.csv"),
              HasSubstr("--program and --svg"));
  refused("schedule 1f1b -K 2 -M 4", "--svg s.svg --csv s.data.csv", "s.data.csv");
  // A device takes what everybody writes.
  EXPECT_EQ(weir("schedule 1f1b -K 2 -M 4 --csv /dev/null").code, 0);
}

// A name that a script left empty is not as if the option was not there; a folder is no file.
TEST_F(Outputs, HaveNames) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  const auto refused = [this](const std::string& arguments, int code, const std::string& words) {
    const CommandResult result = weir(arguments);
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_EQ(result.out, "weir: " + words + "\n") << arguments;
  };
  const std::string empty = ": expected a name, found an empty one";
  refused("layout tiny.json --mesh d=2 --rules batch:d -b 2 --program ''", 2, "--program" + empty);
  refused("simulate plan.json --costs ''", 2, "--costs" + empty);
  refused("simulate ''", 2, "plan" + empty);
  std::filesystem::create_directory(folder_ / "d");
  refused("plan tiny.json -K 2 -M 4 -o d", 3,
          "d: cannot be written: it is a folder, --output names a file");
  refused("export plan.json --to torch -o /dev/null", 3,
          "/dev/null: cannot be written: /dev/null is no folder, --output names one");
}

// What does not reach standard output is an error, in one line.
TEST_F(Outputs, AFullDeviceIsAFailedRun) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  for (const std::string command : {"schedule 1f1b", "doctor --json", "--help"}) {
    EXPECT_EQ(weir(command + " >/dev/full 2>line.txt; echo $?").out, "6\n") << command;
    const std::string message = "standard output: No space left on device";
    EXPECT_EQ(read("line.txt"), command.ends_with("--json")
                                    ? R"({"schema":"weir.error/1","message":")" + message +
                                          R"(","exit_code":6})"
                                          "\n"
                                    : "weir: " + message + "\n")
        << command;
  }
}

// A schedule's path is relative to the file that names it: here the two files lie apart.
TEST_F(Outputs, APlanIsItselfFromFoldersOfAnyDepth) {
  ASSERT_EQ(weir("schedule 1f1b -K 2 -M 4 --csv mine.csv").code, 0);
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --schedule mine.csv -o plan.json").code, 0);
  ASSERT_EQ(weir("simulate plan.json -o a/deeper").code, 0);
  ASSERT_EQ(weir("run plan.json --steps 2 -o b").code, 0);
  const CommandResult result = weir("compare a/deeper/predicted.json b/measured.json");
  EXPECT_EQ(result.code, 0) << result.out;
}

}  // namespace
}  // namespace weir::outputs_test

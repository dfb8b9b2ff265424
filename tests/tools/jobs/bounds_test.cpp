// Small files that would build gigabytes or never end: each ends in a line, or is read.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/started_job.hpp"
#include "tools/jobs/bounds/budget.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/python/evaluate.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::bounds_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kNoComplaint = "no complaint";
const std::string kJob = "pretrain_gpt.py" + kSizes + "--micro-batch-size 1\n";

std::string repeated(const std::string& line, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line;
  return text;
}

// What the reader says of a script, and no more than some seconds later; empty: it is read.
std::string said_of(const std::string& script) {
  const std::clock_t begin = std::clock();  // of the processor: others may use it too
  const std::string line = complaint(
      [&] { static_cast<void>(read_megatron_job(script + kJob, "job.sh", {.gpus = 1})); });
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
  return line == kNoComplaint ? "" : line;
}

TEST(Budget, IsSpentOnce) {
  Budget budget("job.sh");
  budget.elements(1 << 19);
  budget.elements(1 << 19);
  EXPECT_EQ(complaint([&] { budget.elements(1); }),
            "job.sh: takes too many elements to be followed");
  EXPECT_EQ(complaint([&] { budget.bytes(~std::uint64_t{0}); }),
            "job.sh: takes too many bytes to be followed");
}

TEST(ShellBounds, WhatDoublesEnds) {
  EXPECT_THAT(said_of("X=(a)\n" + repeated("X=(\"${X[@]}\" \"${X[@]}\")\n", 40)),
              HasSubstr("takes too many elements"));
  EXPECT_THAT(said_of("set -- a\n" + repeated("set -- \"$@\" \"$@\"\n", 40)),
              HasSubstr("takes too many elements"));
  EXPECT_THAT(said_of("A=" + std::string(1 << 20, 'a') + "\n" + repeated("B=\"$A$A\"\n", 400)),
              HasSubstr("takes too many bytes"));
  EXPECT_THAT(said_of("A=" + std::string(1 << 20, 'a') + "\n" + repeated("X+=(\"$A\")\n", 400)),
              HasSubstr("takes too many bytes"));
  EXPECT_THAT(said_of("set -- " + repeated("a ", 100'000) + "\n" + repeated("shift\n", 2000)),
              HasSubstr("takes too many elements"));
}

// 2^44 calls, 2^40 sums, and a sum of itself.
TEST(ShellBounds, WhatCallsItselfTwiceEnds) {
  std::string calls = "f0() { :; }\n", sums = "A0=1\n";
  for (int i = 1; i < 45; ++i) {
    calls += fmt::format("f{}() {{ f{}; f{}; }}\n", i, i - 1, i - 1);
    sums += fmt::format("A{}=\"A{}+A{}\"\n", i, i - 1, i - 1);
  }
  EXPECT_THAT(said_of(calls + "if [ \"$U\" = 3 ]; then f44; fi\n"), HasSubstr("takes too many"));
  EXPECT_THAT(said_of(sums + "N=$((A40))\n"), HasSubstr("takes too many steps"));
  EXPECT_THAT(said_of("C=\"C+C\"\nN=$((C))\n"), HasSubstr("takes too many steps"));
}

// 1,000 in each of 23 functions that call the next, and 25,000 in one file.
TEST(ShellBounds, BlocksAreAsDeepAsALimit) {
  std::string functions;
  for (int i = 0; i < 23; ++i)
    functions += fmt::format("f{}() {{\n", i) + repeated("if true; then\n", 60) +
                 fmt::format("f{}\n", i + 1) + repeated("fi\n", 60) + "}\n";
  EXPECT_THAT(said_of(functions + "f23() { :; }\nf0\n"), HasSubstr("takes too many levels"));
  for (const auto& [open, close] : {std::pair("if true; then\n", "fi\n"),
                                    {"{\n", "}\n"},
                                    {"for i in a; do\n", "done\n"},
                                    {"while false; do\n", "done\n"},
                                    {"case a in a)\n", ";; esac\n"}}) {
    EXPECT_THAT(said_of(repeated(open, 9000) + ":\n" + repeated(close, 9000)),
                HasSubstr("more than 64 blocks within each other"));
  }
  EXPECT_EQ(said_of(repeated("if true; then\n", 60) + ":\n" + repeated("fi\n", 60)), "");
}

// A text's changes take its length times the pattern's.
TEST(ShellBounds, SubstitutionIsLinear) {
  const std::string letters = "A=" + std::string(4000, 'a') + "\n";
  EXPECT_EQ(said_of(letters + repeated("B=${A//b/c}\n", 10)), "");
  EXPECT_EQ(said_of(letters + "B=${A//*a*a*a*a*a*b/c}\n"), "");
  EXPECT_EQ(said_of(letters + "B=${A##*a*a*a*a*b}\nC=${A%%b*a*a*a*}\n"), "");
  EXPECT_EQ(said_of(letters + "case $A in *a*a*a*a*b) N=1;; esac\n"), "");
}

// A file that sources itself is parsed again each time.
TEST(ShellBounds, ATextThatIsReadAgainCountsAgain) {
  const std::string script = "#" + std::string(900'000, 'x') + "\nsource job.sh; source job.sh\n";
  const ShellFiles files = [&](const std::string& path) -> std::optional<ShellFile> {
    return ShellFile{path, script};
  };
  EXPECT_THAT(
      complaint([&] {
        static_cast<void>(read_megatron_job(script + kJob, "job.sh", {.gpus = 1, .files = files}));
      }),
      HasSubstr("takes too many"));
}

// 60,000 arguments that nobody knows are each named, in a time that grows as their number does.
TEST(ShellBounds, ManyUnknownArgumentsAreLinear) {
  std::string script = kJob.substr(0, kJob.size() - 1);
  for (int i = 0; i < 60'000; ++i) script += fmt::format(" --zz{} 1", i);
  const std::clock_t begin = std::clock();  // of the processor: others may use it too
  EXPECT_GE(read_megatron_job(script + "\n", "job.sh", {.gpus = 1}).remarks.size(), 60'000U);
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
}

// ---- Python -------------------------------------------------------------------------------------

// A function's value as it is printed, or what was wrong with it.
std::string python(const std::string& body) {
  std::string text;
  const std::string line = complaint([&] {
    const PythonFile file = read_python("def f():\n" + body, "job.py");
    text = to_string(call_python(file, "f").value);
  });
  return line == kNoComplaint ? text : line;
}

TEST(PythonBounds, ObjectsThatHoldThemselvesArePrintedToADepth) {
  const std::string circle = python("    c = X()\n    c.me = c\n    return c\n");
  EXPECT_THAT(circle, HasSubstr("X(me=X(me="));
  EXPECT_THAT(circle, HasSubstr("..."));
  EXPECT_LT(circle.size(), 5000U);
  EXPECT_LT(python("    c = X()\n    d = {}\n    d[\"k\"] = c\n    c.d = d\n    return c\n").size(),
            5000U);
  // As a key, and of two that hold each other.
  EXPECT_LT(python("    c = X()\n    c.me = c\n    return {c: 1}\n").size(), 10'000U);
  EXPECT_LT(python("    a = X()\n    b = Y()\n    a.b = b\n    b.a = a\n    return a\n").size(),
            5000U);
}

// Forty objects that hold the one before twice are 2^40 when they are printed.
TEST(PythonBounds, ManyPathsToOneObjectArePrintedToALength) {
  EXPECT_LT(python("    o = X()\n" + repeated("    o = X(o, o)\n", 40) + "    return o\n").size(),
            5000U);
}

// copy.deepcopy copies each object once: 2^32 paths are two objects.
TEST(PythonBounds, DeepCopiesKeepTheirShape) {
  EXPECT_LT(python("    o = X()\n    o.a = o\n    o.b = o\n    return copy.deepcopy(o)\n").size(),
            5000U);
  const PythonFile file = read_python(
      "def f():\n    o = X()\n    o.a = Y()\n    o.b = o.a\n"
      "    c = copy.deepcopy(o)\n    c.a.z = 1\n    return [c.b.z, o.a]\n",
      "job.py");
  EXPECT_EQ(to_string(call_python(file, "f").value), "[1, Y()]");
}

TEST(PythonBounds, WhatDoublesEnds) {
  const auto ends = AnyOf(HasSubstr("takes too many elements"), HasSubstr("takes too many levels"));
  EXPECT_THAT(
      python("    a = \"aaaaaaaaaaaaaaaa\"\n" + repeated("    a = a + a\n", 60) + "    return a\n"),
      ends);
  EXPECT_THAT(python("    a = [1]\n" + repeated("    a = a + a\n", 60) + "    return a\n"), ends);
  EXPECT_THAT(python("    a = [1]\n" + repeated("    a += a\n", 60) + "    return a\n"), ends);
  EXPECT_THAT(python("    a = [1]\n" + repeated("    a = [a, a]\n", 60) + "    return a\n"), ends);
  EXPECT_THAT(
      python("    a = 1\n" + repeated("    a = {\"k\": a, \"l\": a}\n", 60) + "    return a\n"),
      ends);
  EXPECT_LT(python("    o = X()\n" + repeated("    o = dataclasses.replace(o, a=o, b=o)\n", 60) +
                   "    return {o: 1}\n")
                .size(),
            10'000U);
}

// A chain of 20,000 objects is let go of one by one, and not by one destructor within the other.
TEST(PythonBounds, LongChainsAreLetGo) {
  EXPECT_LT(python("    o = X()\n" + repeated("    o = X(o)\n", 20'000) + "    return o\n").size(),
            5000U);
}

// A sum of 900 terms of which the first calls the next: 30 of them are 27,000 levels.
TEST(PythonBounds, ExpressionsAndCallsAreAsDeepAsALimit) {
  std::string text;
  for (int i = 0; i < 30; ++i)
    text += fmt::format("def g{}():\n    return g{}()", i, i + 1) + repeated(" + 1", 900) + "\n";
  const PythonFile file = read_python(text + "def g30():\n    return 1\n", "job.py");
  EXPECT_THAT(complaint([&] { static_cast<void>(call_python(file, "g0")); }),
              HasSubstr("takes too many levels within each other"));
}

}  // namespace
}  // namespace weir::bounds_test

// A shell's patterns against what the C library's fnmatch says, and how long they take.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/glob.hpp"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/plan/complaint.hpp"

namespace weir::glob_test {
namespace {

bool matches(const std::string& pattern, const std::string& text) {
  Budget budget("job.sh");
  return Glob(pattern, budget).matches(text);
}

// 20,000 pairs over a small alphabet, where stars, brackets and their opposites meet.
TEST(Glob, IsFnmatch) {
  std::mt19937 random(1);
  const std::vector<std::string> parts{"a", "b", "*", "?", "[ab]", "[!a]", "[a-c]", "\\*", "c"};
  for (int i = 0; i < 20'000; ++i) {
    std::string pattern, text;
    for (std::uint32_t n = random() % 6; n > 0; --n) pattern += parts[random() % parts.size()];
    for (std::uint32_t n = random() % 7; n > 0; --n) text += "abc*"[random() % 4];
    ASSERT_EQ(matches(pattern, text), ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0)
        << pattern << " on " << text;
  }
}

TEST(Glob, ClassesAndBracketsThatAreNone) {
  EXPECT_TRUE(matches("[[:digit:]][[:alpha:]]", "7b"));
  EXPECT_FALSE(matches("[[:digit:]]", "b"));
  EXPECT_TRUE(matches("[a", "[a"));   // not closed: characters like others
  EXPECT_TRUE(matches("[]a]", "]"));  // first in its bracket it closes nothing
}

// ${X#p} and ${X%p} take the shortest, ${X##p} and ${X%%p} the longest: of "a.b.c" behind "*." b.c
// and c are left, and before ".*" a.b and a.
TEST(Glob, BeginningsAndEnds) {
  Budget budget("job.sh");
  const std::string text = "a.b.c";
  const Glob front("*.", budget), back(".*", budget);
  EXPECT_EQ(front.prefix(text, Glob::Length::shortest), 2U);
  EXPECT_EQ(front.prefix(text, Glob::Length::longest), 4U);
  EXPECT_EQ(back.suffix(text, Glob::Length::shortest), 2U);
  EXPECT_EQ(back.suffix(text, Glob::Length::longest), 4U);
  EXPECT_EQ(Glob("x", budget).prefix(text, Glob::Length::longest), std::nullopt);
}

// Six stars on 4,000 letters: a matcher that goes back takes 4000^6 steps, this one 4000 times 13.
TEST(Glob, ManyStarsTakeTextTimesPattern) {
  EXPECT_FALSE(matches("*a*a*a*a*a*b", std::string(4000, 'a')));
  EXPECT_TRUE(matches("*a*a*a*a*a*b", std::string(4000, 'a') + "b"));
}

TEST(Glob, SpendsItsBudget) {
  Budget budget("job.sh");
  const Glob stars("*a*a*a*a*b", budget);
  EXPECT_EQ(complaint([&] {
              for (int i = 0; i < 1'000'000; ++i)
                static_cast<void>(stars.matches(std::string(1000, 'a')));
            }),
            "job.sh: takes too many steps to be followed");
}

}  // namespace
}  // namespace weir::glob_test

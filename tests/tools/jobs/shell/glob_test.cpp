// A shell's patterns against what the C library's fnmatch says, and how long they take.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/glob.hpp"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

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

using Words = std::vector<std::string>;

// Character by character, a star by every length that it may have; the sets are those below.
bool matches_by_hand(std::span<const std::string> parts, std::span<const std::string> text) {
  if (parts.empty()) return text.empty();
  const std::string& part = parts.front();
  if (part == "*" && matches_by_hand(parts.subspan(1), text)) return true;
  if (text.empty()) return false;
  if (part == "*") return matches_by_hand(parts, text.subspan(1));
  const std::string& c = text.front();
  const bool takes = part == "?"        ? true
                     : part == "[aé]"   ? c == "a" || c == "é"
                     : part == "[!é]"   ? c != "é"
                     : part == "[à-ü€]" ? c == "é" || c == "€"
                     : part == "\\é"    ? c == "é"
                                        : c == part;
  return takes && matches_by_hand(parts.subspan(1), text.subspan(1));
}

std::string joined(const Words& words) {
  return std::accumulate(words.begin(), words.end(), std::string());
}

// 20,000 pairs over characters of one to four bytes, of which none is taken in part.
TEST(Glob, TakesWholeCharacters) {
  std::mt19937 random(2);
  const Words parts{"a", "é", "*", "?", "[aé]", "[!é]", "[à-ü€]", "\\é", "€"};
  const Words characters{"a", "é", "€", "😀"};
  int matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    Words pattern, text;
    for (std::uint32_t n = random() % 6; n > 0; --n)
      pattern.push_back(parts[random() % parts.size()]);
    for (std::uint32_t n = random() % 6; n > 0; --n) text.push_back(characters[random() % 4]);
    const bool expected = matches_by_hand(pattern, text);
    EXPECT_EQ(matches(joined(pattern), joined(text)), expected)
        << joined(pattern) << " on " << joined(text);
    matched += expected ? 1 : 0;
  }
  EXPECT_GT(matched, 1000);
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

// 11,000 Korean syllables, every other one of them named, on 600,000 characters: compared one by
// one that would be 3.3 billion comparisons, and 600,000 times 13 where they are sorted.
TEST(Glob, ABracketOfThousandsIsLookedUp) {
  const auto syllable = [](std::uint32_t i) {
    const std::uint32_t code = 0xAC00 + i;
    return std::string{static_cast<char>(0xE0 | (code >> 12)),
                       static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
                       static_cast<char>(0x80 | (code & 0x3F))};
  };
  std::string bracket = "[";
  for (std::uint32_t i = 11'000; i > 0; i -= 2) bracket += syllable(i);
  bracket += "]";
  EXPECT_TRUE(matches(bracket, syllable(2)));
  EXPECT_TRUE(matches(bracket, syllable(11'000)));
  EXPECT_FALSE(matches(bracket, syllable(3)));
  EXPECT_FALSE(matches(bracket, "a"));
  EXPECT_TRUE(matches("[é-üà-í]", "ë") && matches("[é-üà-í]", "á"));  // ranges that overlap
  std::string text;
  for (int i = 0; i < 600'000; ++i) text += syllable(3);
  const std::clock_t before = std::clock();
  EXPECT_FALSE(matches("*" + bracket, text));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.5);
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

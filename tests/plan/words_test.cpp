// Typed containers and tables of names.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <type_traits>

#include "plan/words/figures.hpp"
#include "plan/words/indexed.hpp"
#include "plan/words/names.hpp"
#include "plan/words/price.hpp"
#include "plan/words/units.hpp"

namespace weir::words_test {
namespace {

template <class Container, class Id>
concept Addressed = requires(Container c, Id id) {
  c[id];
};

TEST(Indexed, IsAddressedByItsOwnIndexOnly) {
  static_assert(Addressed<Indexed<Stage, int>, Stage>);
  static_assert(!Addressed<Indexed<Stage, int>, Rank>);
  static_assert(!Addressed<Indexed<Stage, int>, int>);
  static_assert(!std::is_convertible_v<int, Stage>);
  Indexed<Stage, int> values(3, 7);
  EXPECT_EQ(values.next(), Stage{3});
  values.push_back(9);
  values[Stage{1}] = 8;
  std::vector<int> seen;
  for (const Stage stage : values.ids()) seen.push_back(values[stage]);
  EXPECT_EQ(seen, (std::vector{7, 8, 7, 9}));
  EXPECT_EQ(values.values(), seen);
  EXPECT_TRUE(values.has(Stage{3}));
  EXPECT_FALSE(values.has(Stage{4}));
  EXPECT_FALSE(values.has(Stage{-1}));
  const IndexedView<Stage, const int> view{std::span<const int>(seen)};
  EXPECT_EQ(view[Stage{3}], 9);
  EXPECT_EQ(view.ids().size(), 4U);
}

TEST(Ids, CountFromFirstToBeforeLast) {
  const Ids ids(Rank{2}, Rank{5});
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(*ids.begin(), Rank{2});
  EXPECT_TRUE(Ids(Rank{2}, Rank{1}).empty());
  EXPECT_EQ(Rank{5} - Rank{2}, 3);
  EXPECT_EQ(Rank{2} + 3, Rank{5});
}

// Worked by hand: three digits, the unit that they round to, and hours where there are many.
TEST(Figures, HaveCommasAndNoExponent) {
  EXPECT_EQ(format_figure(517123, 3), "517,000");
  EXPECT_EQ(format_figure(154600.4, 4), "154,600");
  EXPECT_EQ(format_figure(-1234567.0, 5), "-1,234,600");
  EXPECT_EQ(format_figure(999.96, 4), "1,000");
  EXPECT_EQ(format_figure(18.8712, 4), "18.87");
  EXPECT_EQ(format_figure(0.0000512, 3), "0.0000512");
  EXPECT_EQ(format_figure(0.00001, 4), "0.00001");
  EXPECT_EQ(format_figure(0, 4), "0");
  EXPECT_EQ(format_figure(3e18, 4), "3e+18");
  EXPECT_EQ(format_whole(1234567), "1,234,567");
  EXPECT_EQ(format_whole(1e18), "1,000,000,000,000,000,000");
}

TEST(Durations, AreReadAtAGlance) {
  const auto shown = [](double seconds) { return format_duration(Seconds(seconds)); };
  EXPECT_EQ(shown(10680), "2 h 58 min");
  EXPECT_EQ(shown(1074), "1,070 s");
  EXPECT_EQ(shown(3599), "3,600 s");
  EXPECT_EQ(shown(3600), "1 h 0 min");
  EXPECT_EQ(shown(-7260), "-2 h 1 min");
  EXPECT_EQ(shown(200000), "2 d 8 h");
  EXPECT_EQ(shown(86400.0 * 1234), "1,234 d 0 h");
  EXPECT_EQ(shown(0.9996), "1 s");
  EXPECT_EQ(shown(0.5704), "570 ms");
  EXPECT_EQ(shown(0.9994), "999 ms");
  EXPECT_EQ(shown(0), "0 ns");
}

TEST(Prices, AreAnAmountAndACurrency) {
  EXPECT_EQ(parse_price("2.50 USD"), (Price{2.5, "USD"}));
  EXPECT_EQ(parse_price("0EUR"), (Price{0, "EUR"}));
  for (const char* text : {"", "2.5", "USD", "$2.50", "2.5 usd", "2.5 USDT", "2.5  USD", "-1 USD",
                           "+1 USD", "nan USD", "inf USD", "1e999 USD", "1e10 USD", "1,5 EUR"})
    EXPECT_FALSE(parse_price(text)) << text;
  EXPECT_EQ(to_string(Price{0.1, "USD"}), "0.1 USD");
  EXPECT_EQ(parse_price(to_string(Price{1e-7 / 3, "JPY"})), (Price{1e-7 / 3, "JPY"}));
  EXPECT_EQ(format_price(Price{2.5, "USD"} * 100.1), "250.25 USD");
  EXPECT_EQ(format_price({2.5, "USD"}), "2.50 USD");
  EXPECT_EQ(format_price({0.0012344, "USD"}), "0.001234 USD");
  EXPECT_EQ(format_price({999.996, "USD"}), "1,000 USD");
  EXPECT_EQ(format_price({1234567.4, "USD"}), "1,235,000 USD");
  // More than a whole number of 64 bits holds: never less than nothing.
  EXPECT_EQ(format_price({3e20, "USD"}), "3e+20 USD");
}

TEST(Names, AreFoundByEitherSide) {
  enum class Colour { red, green };
  constexpr Names<Colour, 2> kNames{{{Colour::red, "red"}, {Colour::green, "green"}}};
  static_assert(name_of(kNames, Colour::green) == "green");
  static_assert(named(kNames, "red") == Colour::red);
  static_assert(!named(kNames, "blue"));
}

}  // namespace
}  // namespace weir::words_test

// Typed containers and tables of names.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <type_traits>

#include "plan/words/indexed.hpp"
#include "plan/words/names.hpp"

namespace weir {
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

TEST(Names, AreFoundByEitherSide) {
  enum class Colour { red, green };
  constexpr Names<Colour, 2> kNames{{{Colour::red, "red"}, {Colour::green, "green"}}};
  static_assert(name_of(kNames, Colour::green) == "green");
  static_assert(named(kNames, "red") == Colour::red);
  static_assert(!named(kNames, "blue"));
}

}  // namespace
}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "plan/words/action.hpp"

#include <gtest/gtest.h>

#include "plan/words/units.hpp"

namespace weir::action_test {
namespace {

TEST(Action, PrintsAndParsesInPyTorchsWords) {
  for (const char* text : {"2F0", "1I2", "0SEND_F3", "2R0", "10B127", "3W1", "1RECV_B0",
                           "0REDUCE_GRAD", "4OPTIMIZER", "0SEND_F3:2", "2RECV_B1:10"}) {
    const auto action = parse_action(text);
    ASSERT_TRUE(action) << text;
    EXPECT_EQ(to_string(*action), text);
  }
  EXPECT_EQ(*parse_action("1I2"), (Action{Stage{1}, ActionKind::I, Microbatch{2}}));
  EXPECT_EQ(*parse_action("0SEND_F3:2"),
            (Action{Stage{0}, ActionKind::SEND_F, Microbatch{3}, Stage{2}}));
}

// PyTorch's own pattern accepts a prefix; ours is a full match. 2147483648 is one above the largest
// index.
TEST(Action, RefusesEverythingElse) {
  for (const char* text : {"", "F0", "2F", "2F0x", " 2F0", "2f0", "2BW0", "2147483648F0", "-1F0",
                           "0OPTIMIZER1", "0REDUCE", "0F3:2", "0SEND_F3:", "0SEND_F:2"}) {
    EXPECT_FALSE(parse_action(text)) << text;
  }
}

TEST(Units, ParseStrictlyWithTheirUnit) {
  EXPECT_EQ(parse_bytes("80 GiB")->count(), 85'899'345'920);
  EXPECT_EQ(parse_bytes("1.5KB")->count(), 1500);
  EXPECT_EQ(parse_bytes("4.01 GiB")->count(), 4'305'704'714);  // 4.01 * 2^30 = ...714.24
  EXPECT_DOUBLE_EQ(parse_duration("18.522ms")->count(), 0.018522);
  EXPECT_DOUBLE_EQ(parse_rate("300 GB/s")->count(), 3e11);
  for (const char* text : {"80", "GiB", "80 gib", "-1 B", "80  GiB", "1e400 B", "nan B", "0.5 B"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
  EXPECT_DOUBLE_EQ(parse_duration("3 min")->count(), 180);
  EXPECT_DOUBLE_EQ(parse_duration("1.5h")->count(), 5400);
  EXPECT_FALSE(parse_duration("3 minutes"));
  EXPECT_FALSE(parse_rate("300 GB"));
}

// Halves away from zero: 0.5 ns -> 1 ns, 1.5 ns -> 2 ns.
TEST(Units, OneRoundingFunction) {
  EXPECT_EQ(to_nanoseconds(Seconds(0.5e-9)).count(), 1);
  EXPECT_EQ(to_nanoseconds(Seconds(1.5e-9)).count(), 2);
  EXPECT_EQ(to_nanoseconds(Seconds(-0.5e-9)).count(), -1);
  EXPECT_THROW(static_cast<void>(to_nanoseconds(Seconds(1e12))), std::range_error);
}

}  // namespace
}  // namespace weir::action_test

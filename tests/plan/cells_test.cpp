// Tables as spreadsheets write them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/cells.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/schedule_csv.hpp"

namespace weir::cells_test {
namespace {

using testing::ElementsAre;

const std::string kMark = "\xEF\xBB\xBF";

TEST(Cells, AreBetweenCommasButInQuotes) {
  EXPECT_THAT(split_cells(R"(a, "b, ""c""" ,)"), ElementsAre("a", R"(b, "c")"));
  EXPECT_EQ(without_byte_order_mark(kMark + "a"), "a");
  EXPECT_EQ(without_byte_order_mark("a" + kMark), "a" + kMark);
}

// The mark is no part of the first cell: neither of the header's, nor of an action.
TEST(Cells, AByteOrderMarkIsNoPartOfThem) {
  const std::string layers =
      "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
      "a,table,1000,1,1,1,4000,512,2\n";
  EXPECT_EQ(parse_model(kMark + layers, "layers.csv").layers.size(), 2U);
  const std::string rank = "0F0,0B0\n";
  EXPECT_EQ(parse_schedule_csv(kMark + rank, "one.csv"), parse_schedule_csv(rank, "one.csv"));
}

}  // namespace
}  // namespace weir::cells_test

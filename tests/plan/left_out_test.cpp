// Constants back at what they are without a source, worked by hand.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/left_out.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/stack.hpp"
#include "plan/words/error.hpp"

namespace weir::left_out_test {
namespace {

// The stack's hidden share was chosen seeing runs of "a" and of "b", the host's time seeing those
// of "a" alone. Without "a" one is the physical 0 and the other is not there; without "b" only the
// first is another; without "c" nothing is.
const char* const kStack = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
  "time": {"tensor_overlap": 0.5, "step": "20 ms"},
  "origins": {
    "placement": {"source": "read"},
    "time.tensor_overlap": {"source": "rows", "rows": 9, "chosen_seeing": "times",
                            "left_out": {"a": 0, "b": 0.75}},
    "time.step": {"source": "rows", "rows": 9, "chosen_seeing": "times", "left_out": {"a": null}}
  }})";

Stack without(const std::string& source) {
  return parse_stack(without_source(parse_json(kStack, "x"), source).dump(), "x");
}

TEST(LeftOut, EachConstantIsWhatItsCertificateSays) {
  EXPECT_EQ(without("a").time.tensor_overlap, 0);
  EXPECT_EQ(without("a").time.step.count(), 0);
  EXPECT_EQ(without("b").time.tensor_overlap, 0.75);
  EXPECT_EQ(without("b").time.step.count(), 0.02);
  EXPECT_EQ(without("c").time.tensor_overlap, 0.5);
  // What no row of "a" chose any more says so; the other's certificate stays.
  EXPECT_EQ(without("a").origins.at("time.tensor_overlap").chosen_seeing, "");
  EXPECT_EQ(without("b").origins.at("time.step").chosen_seeing, "times");
}

TEST(LeftOut, GoesWithWhatWasSeen) {
  const std::string blind = R"({"schema": "weir.stack/1", "name": "x",
      "placement": "layers", "origins": {"placement": {"source": "read", "left_out": {"a": 1}}}})";
  EXPECT_THROW(static_cast<void>(parse_stack(blind, "x")), InputError);
}

}  // namespace
}  // namespace weir::left_out_test

// The shipped table of what built-in forecasts miss is the one that the shipped constants give.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "costmodel/fit/builtin_interval.hpp"
#include "tests/tools/commands/command.hpp"

namespace weir::builtin_errors_test {
namespace {

class BuiltinErrors : public InFolder {};

// Four decimals are printed; another compiler may round the last ones of a forecast differently.
TEST_F(BuiltinErrors, AreThoseOfTheConstantsThatAreShipped) {
  const CommandResult whole = weir("-q --json reproduce --cross-validate --errors now.csv");
  ASSERT_EQ(whole.code, 0);
  // Every missed aim is missed for a reason.
  const auto judged = nlohmann::json::parse(whole.out);
  for (const auto& aim : judged["cross_validation"]["aims"]) {
    EXPECT_EQ(aim["reached"] == false, aim["because"].is_string()) << aim.dump();
  }
  const auto now = parse_group_errors(read("now.csv"), "now.csv");
  const auto shipped = parse_group_errors(std::string(shipped_group_errors()), "shipped");
  ASSERT_EQ(now.size(), shipped.size());
  ASSERT_FALSE(now.empty());
  for (std::size_t g = 0; g < now.size(); ++g) {
    EXPECT_EQ(now[g].cluster, shipped[g].cluster);
    EXPECT_EQ(now[g].stack, shipped[g].stack);
    EXPECT_EQ(now[g].rows, shipped[g].rows);
    ASSERT_EQ(now[g].quantiles.size(), shipped[g].quantiles.size());
    for (std::size_t q = 0; q < now[g].quantiles.size(); ++q) {
      EXPECT_NEAR(now[g].quantiles[q], shipped[g].quantiles[q], 2e-3)
          << now[g].cluster << ", " << now[g].stack << ": weir reproduce --cross-validate --errors "
          << "tools/examples/measured/builtin_errors.csv writes it anew";
    }
  }
}

}  // namespace
}  // namespace weir::builtin_errors_test

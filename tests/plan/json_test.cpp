// Files of JSON as they are read: strictly, in order, and in a time that grows as they do.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ctime>

#include "plan/text/python_json.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/strict_json.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::json_test {
namespace {

std::string said_of(const std::string& text) {
  return complaint([&] { static_cast<void>(parse_json(text, "a.json")); });
}

// As nlohmann's own parser has it, key by key and value by value.
TEST(StrictJson, IsWhatTheTextSays) {
  for (const char* text :
       {R"({"b": [1, -2, 3.5, 1e3, true, null, "x"], "a": {"c": {}, "d": []}, "e": ""})", "[]", "7",
        R"("text")", R"([[[1], 2], {"k": [{"l": 1}]}])", R"({"a": 18446744073709551615})"})
    EXPECT_EQ(parse_json(text, "a.json").dump(), Json::parse(text).dump()) << text;
}

TEST(StrictJson, RefusesWhatIsNone) {
  EXPECT_EQ(said_of(R"({"a": 1, "b": {"a": 2}, "a": 3})"), "a.json: a: the key is there twice");
  EXPECT_NE(said_of("{\"a\": }"), "no complaint");
  EXPECT_NE(said_of(std::string(100, '[') + std::string(100, ']')), "no complaint");
  EXPECT_EQ(said_of(std::string(64, '[') + std::string(64, ']')), "no complaint");
}

// A double ends at 1.8e308: the line says where the number stands.
TEST(StrictJson, NumbersBeyondADouble) {
  EXPECT_EQ(said_of("{\"a\": [1,\n 2,\n -1e999]}"),
            "a.json: line 3: -1e999: expected a number of at most 1.8e+308");
}

// What is damaged further on, or says so of an object within, is what it says of itself.
TEST(Schema, IsReadBeforeTheDamage) {
  for (const char* text :
       {R"({"schema": "weir.plan/1", "pp": NaN})", R"({"schema": "weir.plan/1", "pp": 1e999})",
        R"({"a": [{"schema": "weir.plan/2"}], "b": {"schema": 1}, "schema": "weir.plan/1")"})
    EXPECT_TRUE(text_has_schema(text, "weir.plan/1")) << text;
  for (const char* text :
       {R"({"a": {"schema": "weir.plan/1"}})", R"([{"schema": "weir.plan/1"}])",
        R"({"schema": ["weir.plan/1"]})", R"({"schema": {"schema": "weir.plan/1"}})"})
    EXPECT_FALSE(text_has_schema(text, "weir.plan/1")) << text;
}

// A file that is anything else is of no schema, and does not throw.
TEST(Schema, IsWhatAnObjectSays) {
  EXPECT_TRUE(text_has_schema(R"({"schema": "weir.plan/1", "pp": 2})", "weir.plan/1"));
  for (const char* text :
       {R"({"schema": "weir.plan/2"})", R"({"schema": 1})", R"({"schema": null})", R"({"pp": 2})",
        R"(["schema", "weir.plan/1"])", "7", "", "{\"schema\": "})
    EXPECT_FALSE(text_has_schema(text, "weir.plan/1")) << text;
}

// Each key looked for among those before it would be 5e9 comparisons of texts.
TEST(StrictJson, ManyKeysAreLinear) {
  std::string text = "{\"k\": 0";
  for (int i = 0; i < 100'000; ++i) text += ", \"k" + std::to_string(i) + "\": 1";
  const std::clock_t begin = std::clock();  // of the processor: others may use it too
  EXPECT_EQ(parse_json(text + "}", "a.json").size(), 100'001U);
  EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC);
}

// What Python writes for numbers that are none; in a text they are letters.
TEST(PythonJson, NumbersThatAreNoneBecomeNull) {
  EXPECT_EQ(without_python_numbers("[0.0, Infinity]"), "[0.0, null]");
  EXPECT_EQ(without_python_numbers("{\"a\": -Infinity}"), "{\"a\": null}");
  EXPECT_EQ(without_python_numbers("{\"a\": NaN, \"b\": 1}"), "{\"a\": null, \"b\": 1}");
  EXPECT_EQ(without_python_numbers(R"({"NaN": "Infinity \" NaN"})"),
            R"({"NaN": "Infinity \" NaN"})");
  EXPECT_EQ(without_python_numbers("[NaN,NaN]"), "[null,null]");
  EXPECT_EQ(without_python_numbers(R"(["\\", NaN])"), R"(["\\", null])");
}

}  // namespace
}  // namespace weir::json_test

// Strict reading of JSON: depth and duplicate keys are checked while parsing, and an object knows
// which of its keys were asked for, so that `finish()` can refuse the others. Every complaint is an
// InputError with file and key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

using Json = nlohmann::ordered_json;

// null for what there is not.
[[nodiscard]] Json or_null(const auto& value) { return value ? Json(*value) : Json(); }

// Throws InputError: syntax error (with line), nesting above 64, a key given twice.
[[nodiscard]] Json parse_json(const std::string& text, const std::string& file);

// One object of a file while it is being read. `where` is the path of keys to it, "" for the top.
class JsonObject {
 public:
  JsonObject(const Json& value, std::string file, std::string where);

  [[nodiscard]] bool has(std::string_view key) const { return value_.contains(std::string(key)); }
  [[nodiscard]] bool is_null(std::string_view key) const {
    return has(key) && value_.at(std::string(key)).is_null();
  }
  // The value of a key that must be there, marked as read.
  [[nodiscard]] const Json& at(std::string_view key);

  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low = 0,
                                     std::int64_t high = std::int64_t{1} << 40);
  [[nodiscard]] double number(std::string_view key, double low = 0,
                              double high = std::numeric_limits<double>::max());
  [[nodiscard]] bool boolean(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] JsonObject object(std::string_view key);
  [[nodiscard]] std::vector<JsonObject> objects(std::string_view key);
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key, std::int64_t low = 0,
                                                   std::int64_t high = std::int64_t{1} << 40);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);

  // The same where the key may be absent or null.
  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t otherwise,
                                        std::int64_t low = 0,
                                        std::int64_t high = std::int64_t{1} << 40);
  [[nodiscard]] double number_or(std::string_view key, double otherwise, double low = 0,
                                 double high = std::numeric_limits<double>::max());
  [[nodiscard]] bool boolean_or(std::string_view key, bool otherwise);
  [[nodiscard]] std::string text_or(std::string_view key, std::string otherwise);

  void expect_schema(std::string_view schema);  // key "schema" must be exactly this
  void finish() const;                          // a key never asked for is an error
  [[nodiscard]] std::vector<std::string> unread() const;
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  [[nodiscard]] std::string path(std::string_view key) const;
  [[nodiscard]] bool absent(std::string_view key);  // marks the key as known

  const Json& value_;
  std::string file_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace weir

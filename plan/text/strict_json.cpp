// JSON that is watched while it is parsed, and objects that know which of their keys were read.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr int kOverflow = 406;  // nlohmann's own number of it: a double cannot hold it

// Builds the value while it watches depth and keys: a recursive reader would be led into the depth,
// and one that looks for each key among those before it takes their square.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& text, std::string file) : text_(text), file_(std::move(file)) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return open(Json::object());
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) throw InputError(file_, name, "the key is there twice");
    name_ = std::move(name);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    if (error.id == kOverflow) {
      const auto read = static_cast<std::ptrdiff_t>(std::min(position, text_.size()));
      const auto line = 1 + std::count(text_.begin(), text_.begin() + read, '\n');
      throw InputError(file_, fmt::format("line {}", line),
                       fmt::format("{}: expected a number of at most {:.3g}", token,
                                   std::numeric_limits<double>::max()));
    }
    const std::string_view what = error.what();
    const auto at = what.find("parse error");
    throw InputError(file_, "",
                     fmt::format("no valid JSON: {}", what.substr(at == what.npos ? 0 : at)));
  }

 private:
  // Where the next value stands. Only the last of a list or an object is still open, so that none
  // of those in `open_` moves when another is put behind it.
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    // As in a vector: that the key is new is known.
    auto& members = parent.get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(members).emplace_back(std::move(name_),
                                                                  std::move(value));
    return &members.back().second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kDeepest)
      throw InputError(file_, "", fmt::format("JSON nested deeper than {}", kDeepest));
    open_.push_back(place(std::move(value)));
    return true;
  }

  const std::string& text_;
  std::string file_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<std::set<std::string>> keys_;
  std::string name_;  // of the value that comes next
};

}  // namespace

Json parse_json(const std::string& text, const std::string& file) {
  Builder builder(text, file);
  Json::sax_parse(text, &builder);
  return builder.take();
}

JsonObject::JsonObject(const Json& value, std::string file, std::string where)
    : value_(value), file_(std::move(file)), where_(std::move(where)) {
  if (!value_.is_object()) throw InputError(file_, where_, "expected an object");
}

std::string JsonObject::path(std::string_view key) const {
  return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
}

void JsonObject::fail(std::string_view key, std::string_view message) const {
  throw InputError(file_, path(key), std::string(message));
}

bool JsonObject::absent(std::string_view key) {
  // What was asked for is known, whether it is there or not.
  known_.insert(std::string(key));
  return !has(key) || is_null(key);
}

const Json& JsonObject::at(std::string_view key) {
  known_.insert(std::string(key));
  if (!has(key)) fail(key, "is missing");
  return value_.at(std::string(key));
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const Json& value = at(key);
  const auto expected = fmt::format("expected an integer from {} to {}", low, high);
  if (!value.is_number_integer()) fail(key, expected);
  // Above 2^63 - 1 it would wrap as int64, so it is compared before.
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high))
    fail(key, expected);
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) fail(key, expected);
  return number;
}

double JsonObject::number(std::string_view key, double low, double high) {
  const Json& value = at(key);
  if (!value.is_number()) fail(key, "expected a number");
  const auto number = value.get<double>();
  if (!std::isfinite(number) || number < low || number > high) {
    fail(key, high == std::numeric_limits<double>::max()
                  ? fmt::format("expected a number of at least {}", low)
                  : fmt::format("expected a number from {} to {}", low, high));
  }
  return number;
}

bool JsonObject::boolean(std::string_view key) {
  const Json& value = at(key);
  if (!value.is_boolean()) fail(key, "expected true or false");
  return value.get<bool>();
}

std::string JsonObject::text(std::string_view key) {
  const Json& value = at(key);
  if (!value.is_string()) fail(key, "expected a text");
  return value.get<std::string>();
}

JsonObject JsonObject::object(std::string_view key) { return {at(key), file_, path(key)}; }

std::vector<JsonObject> JsonObject::objects(std::string_view key) {
  const Json& value = at(key);
  if (!value.is_array()) fail(key, "expected a list of objects");
  std::vector<JsonObject> all;
  for (std::size_t i = 0; i < value.size(); ++i)
    all.emplace_back(value[i], file_, fmt::format("{}[{}]", path(key), i));
  return all;
}

std::vector<std::int64_t> JsonObject::integers(std::string_view key, std::int64_t low,
                                               std::int64_t high) {
  const Json& value = at(key);
  const auto expected = fmt::format("expected a list of integers from {} to {}", low, high);
  if (!value.is_array()) fail(key, expected);
  std::vector<std::int64_t> all;
  for (const Json& element : value) {
    // Compared as doubles, for above 2^63 - 1 it would wrap.
    if (!element.is_number_integer() || element.get<double>() < static_cast<double>(low) ||
        element.get<double>() > static_cast<double>(high)) {
      fail(key, expected);
    }
    all.push_back(element.get<std::int64_t>());
  }
  return all;
}

std::vector<std::string> JsonObject::texts(std::string_view key) {
  const Json& value = at(key);
  std::vector<std::string> all;
  if (!value.is_array()) fail(key, "expected a list of texts");
  for (const Json& element : value) {
    if (!element.is_string()) fail(key, "expected a list of texts");
    all.push_back(element.get<std::string>());
  }
  return all;
}

std::int64_t JsonObject::integer_or(std::string_view key, std::int64_t otherwise, std::int64_t low,
                                    std::int64_t high) {
  return absent(key) ? otherwise : integer(key, low, high);
}
double JsonObject::number_or(std::string_view key, double otherwise, double low, double high) {
  return absent(key) ? otherwise : number(key, low, high);
}
bool JsonObject::boolean_or(std::string_view key, bool otherwise) {
  return absent(key) ? otherwise : boolean(key);
}
std::string JsonObject::text_or(std::string_view key, std::string otherwise) {
  return absent(key) ? std::move(otherwise) : text(key);
}

void JsonObject::expect_schema(std::string_view schema) {
  const std::string found = text("schema");
  if (found != schema)
    fail("schema", fmt::format("expected \"{}\", found \"{}\"", schema, found.substr(0, 40)));
}

std::vector<std::string> JsonObject::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : value_.items()) {
    if (!known_.contains(key)) keys.push_back(key);
  }
  return keys;
}

void JsonObject::finish() const {
  const auto keys = unread();
  if (!keys.empty()) fail(keys.front(), "unknown key");
}

}  // namespace weir

// A word under one key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/schema.hpp"

namespace weir {

bool has_schema(const Json& json, std::string_view schema) {
  const auto said = json.is_object() ? json.find("schema") : json.end();
  return said != json.end() && *said == schema;
}

namespace {

// Reads until the outermost object has said its schema, or shows that it is none.
class SchemaReader : public nlohmann::json_sax<Json> {
 public:
  std::string schema;

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (asked_) schema = std::move(value);
    return other();
  }
  bool start_object(std::size_t) override { return other() && ++depth_ > 0; }
  // Only in an object that is the text's own is a key looked at.
  bool key(string_t& name) override {
    asked_ = depth_ == 1 && name == "schema";
    return true;
  }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(std::size_t) override { return other() && depth_++ > 0; }
  bool end_array() override { return --depth_ > 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  // Goes on, unless this is the value that was looked for.
  [[nodiscard]] bool other() const { return !asked_; }

  int depth_ = 0;
  bool asked_ = false;  // whether the value that comes next is the schema
};

}  // namespace

bool text_has_schema(const std::string& text, std::string_view schema) {
  SchemaReader reader;
  Json::sax_parse(text, &reader);
  return reader.schema == schema;
}

}  // namespace weir

// Values of Python, and how they are written.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/value.hpp"

#include <fmt/format.h>

namespace weir {

std::optional<std::int64_t> PythonValue::integer() const {
  if (const auto* whole = std::get_if<std::int64_t>(&is)) return *whole;
  return std::nullopt;
}

std::optional<double> PythonValue::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&is)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&is)) return *real;
  return std::nullopt;
}

std::optional<bool> PythonValue::truth() const {
  if (const auto* said = std::get_if<bool>(&is)) return *said;
  if (none()) return false;
  if (const auto given = number()) return *given != 0;
  if (text() != nullptr) return !text()->empty();
  if (list() != nullptr) return !list()->values.empty();
  if (dict() != nullptr) return !dict()->values.empty();
  return std::nullopt;  // an object may say so itself
}

const PythonValue* PythonValue::field(std::string_view name) const {
  const auto found_in = [name](const std::map<std::string, PythonValue>& fields) {
    const auto found = fields.find(std::string(name));
    return found == fields.end() ? nullptr : &found->second;
  };
  if (object() != nullptr) return found_in(object()->fields);
  return dict() != nullptr ? found_in(dict()->values) : nullptr;
}

const PythonValue* PythonValue::at(std::string_view path) const {
  const std::size_t dot = path.find('.');
  const PythonValue* first = field(path.substr(0, dot));
  return first == nullptr || dot == path.npos ? first : first->at(path.substr(dot + 1));
}

namespace {

std::string listed(const std::vector<PythonValue>& values) {
  std::string text;
  for (const PythonValue& value : values) text += (text.empty() ? "" : ", ") + to_string(value);
  return text;
}

std::string listed(const std::map<std::string, PythonValue>& fields, std::string_view between) {
  std::string text;
  for (const auto& [name, value] : fields)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name, between, to_string(value));
  return text;
}

}  // namespace

std::string to_string(const PythonValue& value) {
  if (value.none()) return "None";
  if (const auto* said = std::get_if<bool>(&value.is)) return *said ? "True" : "False";
  if (const auto whole = value.integer()) return fmt::to_string(*whole);
  if (const auto real = value.number()) return fmt::to_string(*real);
  if (value.text() != nullptr) return fmt::format("{:?}", *value.text());
  if (value.list() != nullptr) return "[" + listed(value.list()->values) + "]";
  if (value.dict() != nullptr) return "{" + listed(value.dict()->values, ": ") + "}";
  if (const PythonObject* object = value.object()) {
    const std::string places = listed(object->places), fields = listed(object->fields, "=");
    return fmt::format("{}({}{}{})", object->callee, places,
                       places.empty() || fields.empty() ? "" : ", ", fields);
  }
  return value.unknown()->source;
}

}  // namespace weir

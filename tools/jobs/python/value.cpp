// Values of Python, and how they are written.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

constexpr std::size_t kLongestPrinted = 4096;
constexpr int kDeepestPrinted = 32;

// Values that hold themselves, or the same one many times, have no end: it stops at a depth and at
// a length.
class Printer {
 public:
  std::string print(const PythonValue& value) {
    one(value);
    if (text_.size() > kLongestPrinted) text_ = text_.substr(0, kLongestPrinted) + "...";
    return std::move(text_);
  }

 private:
  bool full() const { return text_.size() > kLongestPrinted; }

  void one(const PythonValue& value) {
    if (full()) return;
    if (++depth_ > kDeepestPrinted) {
      text_ += "...";
    } else if (value.list() != nullptr) {
      text_ += '[';
      places(value.list()->values);
      text_ += ']';
    } else if (value.dict() != nullptr) {
      text_ += '{';
      fields(value.dict()->values, ": ", true);
      text_ += '}';
    } else if (const PythonObject* object = value.object()) {
      text_ += object->callee + "(";
      places(object->places);
      fields(object->fields, "=", object->places.empty());
      text_ += ')';
    } else {
      text_ += plain(value);
    }
    --depth_;
  }
  void places(const std::vector<PythonValue>& values) {
    bool first = true;
    for (const PythonValue& value : values) {
      if (full()) return;
      if (!std::exchange(first, false)) text_ += ", ";
      one(value);
    }
  }
  void fields(const std::map<std::string, PythonValue>& all, std::string_view between, bool first) {
    for (const auto& [name, value] : all) {
      if (full()) return;
      if (!std::exchange(first, false)) text_ += ", ";
      text_ += name;
      text_ += between;
      one(value);
    }
  }
  static std::string plain(const PythonValue& value) {
    if (value.none()) return "None";
    if (const auto* said = std::get_if<bool>(&value.is)) return *said ? "True" : "False";
    if (const auto whole = value.integer()) return fmt::to_string(*whole);
    if (const auto real = value.number()) return fmt::to_string(*real);
    if (value.text() != nullptr)
      return fmt::format("{:?}", std::string_view(*value.text()).substr(0, kLongestPrinted + 1));
    return value.unknown()->source;
  }

  std::string text_;
  int depth_ = 0;
};

constexpr int kDeepestValue = 100;

std::size_t weight(const PythonValue& value, int depth) {
  if (depth > kDeepestValue) return kTooDeep;
  const auto sum = [depth](std::size_t before, const PythonValue& part) {
    const std::size_t more = weight(part, depth + 1);
    return std::min(before + more, kTooDeep);
  };
  std::size_t all = 1;
  if (value.text() != nullptr) return all + value.text()->size() / kBytesOfValue;
  if (value.list() != nullptr) {
    for (const PythonValue& part : value.list()->values) all = sum(all, part);
  } else if (value.dict() != nullptr) {
    for (const auto& [name, part] : value.dict()->values) all = sum(all, part);
  }
  return all;
}

}  // namespace

std::size_t weight(const PythonValue& value) { return weight(value, 0); }

std::string to_string(const PythonValue& value) { return Printer().print(value); }

PythonHeap::~PythonHeap() {
  // One after the other, while all are held: none drops the last hold on another.
  for (const auto& object : objects_) {
    object->places.clear();
    object->fields.clear();
  }
}

std::shared_ptr<PythonObject> PythonHeap::make(PythonObject object) {
  objects_.push_back(std::make_shared<PythonObject>(std::move(object)));
  return objects_.back();
}

}  // namespace weir

// Python's arithmetic and comparisons.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/python/operators.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace weir {
namespace {

using Whole = std::int64_t;

// Floor division and its remainder, as Python's, whose remainder has the divisor's sign.
std::optional<Whole> whole_arithmetic(const std::string& sign, Whole a, Whole b) {
  Whole made = 0;
  if (sign == "+") return __builtin_add_overflow(a, b, &made) ? std::nullopt : std::optional(made);
  if (sign == "-") return __builtin_sub_overflow(a, b, &made) ? std::nullopt : std::optional(made);
  if (sign == "*") return __builtin_mul_overflow(a, b, &made) ? std::nullopt : std::optional(made);
  if (sign == "//" || sign == "%") {
    if (b == 0) return std::nullopt;
    if (b == -1) return sign == "%" ? std::optional<Whole>(0) : whole_arithmetic("-", 0, a);
    const Whole rest = a % b, over = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
    return sign == "//" ? a / b - over : rest + over * b;
  }
  if (sign == "**" && b >= 0 && b < 64) {
    made = 1;
    for (Whole i = 0; i < b; ++i) {
      if (__builtin_mul_overflow(made, a, &made)) return std::nullopt;
    }
    return made;
  }
  return std::nullopt;
}

std::optional<double> real_arithmetic(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/" && b != 0) return a / b;
  if (sign == "//" && b != 0) return std::floor(a / b);
  if (sign == "**") return std::pow(a, b);
  return std::nullopt;
}

// Same kind and same value; nullopt where either has something unknown in it.
std::optional<bool> same(const PythonValue& a, const PythonValue& b) {
  if (a.unknown() != nullptr || b.unknown() != nullptr) return std::nullopt;
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() == *b.text();
  if (a.none() || b.none()) return a.none() && b.none();
  const auto* x = std::get_if<bool>(&a.is);
  const auto* y = std::get_if<bool>(&b.is);
  if (x != nullptr && y != nullptr) return *x == *y;
  return a.is.index() == b.is.index() ? std::nullopt : std::optional(false);
}

std::optional<bool> holds(const PythonValue& all, const PythonValue& one) {
  if (all.dict() != nullptr) {
    const auto key = python_key(one);
    return key ? std::optional(all.field(*key) != nullptr) : std::nullopt;
  }
  if (all.text() != nullptr && one.text() != nullptr)
    return all.text()->find(*one.text()) != std::string::npos;
  if (all.list() == nullptr) return std::nullopt;
  bool known = true;
  for (const PythonValue& value : all.list()->values) {
    const auto equal = same(value, one);
    if (equal && *equal) return true;
    known = known && equal.has_value();
  }
  return known ? std::optional(false) : std::nullopt;
}

std::optional<bool> compared(const std::string& sign, const PythonValue& a, const PythonValue& b) {
  const bool denies = sign == "!=" || sign == "is not" || sign == "not in";
  std::optional<bool> truth;
  if (sign == "==" || sign == "!=" || sign == "is" || sign == "is not") truth = same(a, b);
  if (sign == "in" || sign == "not in") truth = holds(b, a);
  if (truth) return *truth != denies;
  if (!a.number() || !b.number()) return std::nullopt;
  const double x = *a.number(), y = *b.number();
  if (sign == "<") return x < y;
  if (sign == ">") return x > y;
  if (sign == "<=") return x <= y;
  if (sign == ">=") return x >= y;
  return std::nullopt;
}

PythonValue not_known() { return {PythonUnknown{}}; }

std::size_t weight_of(const PythonObject& object) {
  std::size_t all = 1;
  for (const PythonValue& place : object.places) all += weight(place);
  for (const auto& [name, field] : object.fields) all += weight(field);
  return all;
}

// dataclasses.replace(object, field=...) is another object with the same other fields.
std::optional<PythonValue> replaced(const PythonCall& call, PythonHeap& heap, Budget& budget) {
  const PythonObject* original = call.places[0].object();
  if (original == nullptr) return std::nullopt;
  budget.elements(weight_of(*original));
  auto made = heap.make(*original);
  for (const auto& [name, value] : call.keywords) made->fields[name] = value;
  return PythonValue{std::move(made)};
}

// copy.deepcopy: each object once, however often it is held, as Python's memo has it.
class DeepCopy {
 public:
  DeepCopy(PythonHeap& heap, Budget& budget) : heap_(heap), budget_(budget) {}

  PythonValue of(const PythonValue& value) {
    const PythonObject* original = value.object();
    if (original == nullptr) return value;
    const auto known = copies_.find(original);
    if (known != copies_.end()) return {known->second};
    const Budget::Level level(budget_);
    budget_.elements(weight_of(*original));
    auto made = heap_.make(*original);
    copies_[original] = made;
    for (auto& [name, field] : made->fields) field = of(field);
    return {std::move(made)};
  }

 private:
  PythonHeap& heap_;
  Budget& budget_;
  std::map<const PythonObject*, std::shared_ptr<PythonObject>> copies_;
};

}  // namespace

PythonValue python_number_value(const std::string& digits) {
  const char* const end = digits.data() + digits.size();
  Whole whole = 0;
  const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  const auto read =
      std::from_chars(digits.data() + (hexadecimal ? 2 : 0), end, whole, hexadecimal ? 16 : 10);
  if (read.ec == std::errc() && read.ptr == end) return {whole};
  double real = 0;
  const auto floating = std::from_chars(digits.data(), end, real);
  if (floating.ec == std::errc() && floating.ptr == end) return {real};
  return {PythonUnknown{digits}};
}

PythonValue python_unary(const std::string& sign, const PythonValue& value,
                         const std::string& source) {
  if (sign == "not" && value.truth()) return {!*value.truth()};
  if (sign == "+" && value.number()) return value;
  if (sign == "-") {
    PythonValue made = python_binary("-", {Whole{0}}, value);
    if (const auto* real = std::get_if<double>(&value.is)) made = {-*real};
    if (made.unknown() == nullptr) return made;
  }
  return {PythonUnknown{source}};
}

std::optional<std::string> python_key(const PythonValue& key) {
  if (key.text() != nullptr) return *key.text();
  if (key.number()) return to_string(key);
  if (key.list() == nullptr) return std::nullopt;
  for (const PythonValue& part : key.list()->values) {
    if (part.text() == nullptr && !part.number()) return std::nullopt;
  }
  return to_string(key);
}

PythonValue python_binary(const std::string& sign, const PythonValue& left,
                          const PythonValue& right) {
  if (const auto truth = compared(sign, left, right)) return {*truth};
  if (left.integer() && right.integer() && sign != "/") {
    const auto made = whole_arithmetic(sign, *left.integer(), *right.integer());
    return made ? PythonValue{*made} : not_known();
  }
  if (left.number() && right.number()) {
    const auto made = real_arithmetic(sign, *left.number(), *right.number());
    return made ? PythonValue{*made} : not_known();
  }
  if (sign == "+" && left.text() != nullptr && right.text() != nullptr)
    return {*left.text() + *right.text()};
  if (sign == "+" && left.list() != nullptr && right.list() != nullptr) {
    PythonList both = *left.list();
    both.values.insert(both.values.end(), right.list()->values.begin(), right.list()->values.end());
    return {std::move(both)};
  }
  // [value] * count
  constexpr std::size_t kMostRepeated = 1 << 16;
  if (sign == "*" && left.list() != nullptr && right.integer()) {
    const auto count = static_cast<std::size_t>(std::max<Whole>(*right.integer(), 0));
    if (count > kMostRepeated || count * weight(left) > kMostRepeated) return not_known();
    PythonList all;
    for (std::size_t i = 0; i < count; ++i)
      all.values.insert(all.values.end(), left.list()->values.begin(), left.list()->values.end());
    return {std::move(all)};
  }
  return not_known();
}

std::optional<PythonValue> python_builtin(const PythonCall& call, PythonHeap& heap,
                                          Budget& budget) {
  const auto& [callee, places, keywords] = call;
  const bool one = places.size() == 1 && keywords.empty();
  if (callee == "dict" && places.empty()) return PythonValue{PythonDict{keywords}};
  if ((callee == "replace" || callee == "dataclasses.replace") && places.size() == 1)
    return replaced(call, heap, budget);
  if ((callee == "deepcopy" || callee == "copy.deepcopy") && one)
    return DeepCopy(heap, budget).of(places[0]);
  if (callee == "cast" && places.size() == 2) return places[1];
  // What the object has. Of one that another file makes it is not known what it has not.
  if (callee == "getattr" && places.size() >= 2 && places[0].object() != nullptr &&
      places[1].text() != nullptr) {
    if (const PythonValue* field = places[0].field(*places[1].text())) return *field;
  }
  if (callee == "int" && one && places[0].number() && std::abs(*places[0].number()) < 1e15)
    return PythonValue{static_cast<Whole>(*places[0].number())};
  if (callee == "float" && one && places[0].number()) return PythonValue{*places[0].number()};
  // Of a text alone it is known here what it is an instance of.
  if (callee == "isinstance" && places.size() == 2 && places[1].unknown() != nullptr &&
      places[1].unknown()->source == "str" && places[0].unknown() == nullptr)
    return PythonValue{places[0].text() != nullptr};
  if (callee == "len" && one && places[0].list() != nullptr)
    return PythonValue{static_cast<Whole>(places[0].list()->values.size())};
  if ((callee == "list" || callee == "tuple") && one && places[0].list() != nullptr)
    return places[0];
  return std::nullopt;
}

std::optional<PythonValue> python_lower(const PythonValue& value) {
  if (value.text() == nullptr) return std::nullopt;
  std::string small = *value.text();
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return PythonValue{std::move(small)};
}

std::string python_made_from(const PythonValue& whose) {
  const PythonObject* of = whose.object();
  if (of == nullptr || !of->made_from.empty() || !of->callee.ends_with(".from_hf_pretrained"))
    return of == nullptr ? std::string() : of->made_from;
  const PythonValue* path = of->places.empty() ? whose.field("path") : &of->places.front();
  constexpr std::size_t kLongest = 200;
  return path == nullptr || path->text() == nullptr || path->text()->size() > kLongest
             ? std::string()
             : *path->text();
}

}  // namespace weir

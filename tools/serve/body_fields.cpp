// Each kind of target from the JSON that it takes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/body_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir {
namespace {

using Path = std::filesystem::path;

constexpr std::size_t kMostWords = 1000;  // of a list

template <class Value>
struct Held {
  using Type = Value;
};
template <class Value>
struct Held<std::optional<Value>> {
  using Type = Value;
};

class Filling {
 public:
  Filling(const app::Field& field, std::string key, const Json& value)
      : field_(field), key_(std::move(key)), value_(value) {}

  void operator()(bool* target) const {
    if (!value_.is_boolean()) fail("expected true or false");
    *target = value_.get<bool>();
  }
  void operator()(std::string* target) const {
    *target = text(value_);
    app::require_choices(field_, {*target});
  }
  void operator()(Path* target) const { *target = path_within(text(value_), key_); }
  void operator()(std::optional<Path>* target) const { *target = path_within(text(value_), key_); }
  void operator()(app::PlanSource* target) const { *target = path_within(text(value_), key_); }
  void operator()(app::CostsSource* target) const { *target = path_within(text(value_), key_); }
  void operator()(app::TraceSource* target) const { *target = path_within(text(value_), key_); }
  void operator()(app::ScheduleChoice* target) const {
    const std::string name = text(value_);
    // A program would be started by who asks, and not by who serves.
    if (name.starts_with("exec:")) fail("expected a name or a CSV file");
    *target = name.ends_with(".csv") ? path_within(name, key_).string() : name;
  }
  void operator()(app::Words* target) const {
    target->words = value_.is_string() ? parse_words(text(value_)) : texts();
    app::require_choices(field_, target->words);
  }
  // As the command line has them, "1..8", or a number, or a list of numbers.
  void operator()(std::vector<int>* target) const {
    const auto [low, high] = field_.traits.range.value();
    if (value_.is_string()) {
      *target = parse_numbers(text(value_), key_, static_cast<int>(low), static_cast<int>(high));
      return;
    }
    target->clear();
    if (!value_.is_array()) {
      target->push_back(whole<int>(value_));
      return;
    }
    for (const Json& one : list()) target->push_back(whole<int>(one));
    if (target->empty()) fail("expected at least one number");
  }
  void operator()(std::vector<double>* target) const {
    target->clear();
    const auto add = [&](const Json& one) { Filling(field_, key_, one)(&target->emplace_back()); };
    if (!value_.is_array()) return add(value_);
    for (const Json& one : list()) add(one);
    if (target->empty()) fail("expected at least one number");
  }
  void operator()(std::vector<std::string>* target) const { *target = texts(); }
  void operator()(std::vector<Path>* target) const {
    target->clear();
    for (const std::string& one : texts()) target->push_back(path_within(one, key_));
  }
  void operator()(std::vector<app::TraceSource>* target) const {
    target->clear();
    for (const std::string& one : texts()) target->emplace_back(path_within(one, key_));
  }
  void operator()(std::vector<app::ScheduleChoice>* target) const {
    target->clear();
    for (const Json& one : list()) Filling(field_, key_, one)(&target->emplace_back());
  }
  template <class Number>
  void operator()(Number* target) const {
    using Value = typename Held<Number>::Type;
    if constexpr (std::is_same_v<Value, double>) {
      if (!value_.is_number()) fail("expected a number");
      const double number = value_.get<double>();
      check(number);
      *target = number;
    } else {
      *target = whole<Value>(value_);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw InputError(kRequest, key_, why); }

  void check(double number) const {
    const auto [low, high] = field_.traits.range.value();
    if (!(number >= low && number <= high))  // also what is no number
      fail(fmt::format("{}: expected {} to {}", number, low, high));
  }
  template <class Number>
  [[nodiscard]] Number whole(const Json& value) const {
    if (!value.is_number_integer()) fail("expected a whole number");
    // One beyond 63 bits is out of every range.
    const bool huge = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
    if (huge) fail("expected a smaller number");
    const std::int64_t number = value.get<std::int64_t>();
    check(static_cast<double>(number));
    return static_cast<Number>(number);
  }
  [[nodiscard]] std::string text(const Json& value) const {
    if (!value.is_string()) fail("expected a text");
    return value.get<std::string>();
  }
  [[nodiscard]] const Json& list() const {
    if (!value_.is_array() || value_.size() > kMostWords)
      fail(fmt::format("expected a list of at most {}", kMostWords));
    return value_;
  }
  [[nodiscard]] std::vector<std::string> texts() const {
    if (value_.is_string()) return {text(value_)};
    std::vector<std::string> all;
    for (const Json& one : list()) all.push_back(text(one));
    return all;
  }

  const app::Field& field_;
  std::string key_;
  const Json& value_;
};

const app::Field* field_named(const app::Fields& fields, const std::string& name) {
  const auto found = std::ranges::find_if(fields, [&](const app::Field& field) {
    const auto names = app::long_names(field);
    return std::ranges::find(names, name) != names.end();
  });
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace

Path path_within(const std::string& text, const std::string& key) {
  Path path = text;
  const bool above = std::ranges::find(path, Path("..")) != path.end();
  if (text.empty() || text.find('\0') != text.npos || path.is_absolute() || above)
    throw InputError(kRequest, key, "expected a file below the folder that is served");
  return path;
}

std::set<std::string> fill(const app::Fields& fields, const std::vector<std::string_view>& allowed,
                           const Json& body) {
  if (!body.is_object()) throw InputError(kRequest, "", "expected an object");
  std::set<std::string> given;
  for (const auto& [key, value] : body.items()) {
    const bool may = std::ranges::find(allowed, key) != allowed.end();
    const app::Field* field = may ? field_named(fields, key) : nullptr;
    if (field == nullptr) {
      throw InputError(kRequest, key,
                       fmt::format("expected one of {}{}", fmt::join(allowed, ", "),
                                   did_you_mean(key, {allowed.begin(), allowed.end()})));
    }
    if (value.is_null()) continue;
    std::visit(Filling(*field, key, value), field->target);
    given.insert(app::long_names(*field).front());
  }
  if (const app::Field* missing = app::first_missing(fields, given))
    throw InputError(kRequest, app::long_names(*missing).front(), "is missing");
  return given;
}

namespace {

// Whether a list is so many arguments on the command line; else it is one, with commas.
bool is_repeated(const app::Field& field) {
  return std::visit(
      [](auto* target) {
        using Value = std::remove_pointer_t<decltype(target)>;
        return std::is_same_v<Value, std::vector<std::string>> ||
               std::is_same_v<Value, std::vector<Path>> ||
               std::is_same_v<Value, std::vector<app::TraceSource>> ||
               std::is_same_v<Value, std::vector<app::ScheduleChoice>>;
      },
      field.target);
}

std::string word_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The value as the command line has it: a word, or one for each of a list.
std::vector<std::string> words_of(const app::Field& field, const Json& value) {
  if (!value.is_array()) return {word_of(value)};
  std::vector<std::string> words;
  for (const Json& part : value) words.push_back(word_of(part));
  if (is_repeated(field)) return words;
  return {fmt::format("{}", fmt::join(words, ","))};
}

}  // namespace

std::string command_line_of(std::string_view command, const app::Fields& fields, const Json& body) {
  std::string by_place, options;
  for (const auto& [key, value] : body.items()) {
    const app::Field* field = field_named(fields, key);
    if (field == nullptr || value.is_null() || value == false) continue;
    if (value.is_boolean()) {
      options += " --" + key;
      continue;
    }
    const bool placed = !field->names.starts_with("-");
    for (const std::string& word : words_of(*field, value))
      (placed ? by_place : options) += (placed ? " " : " --" + key + " ") + shell_quoted(word);
  }
  return fmt::format("weir {}{}{}", command, by_place, options);
}

}  // namespace weir

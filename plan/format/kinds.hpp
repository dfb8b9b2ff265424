// How values stand in a file. A kind has its type in the words of docs/formats.md, `read` into a
// member, which throws InputError, and `write`, without which the value is never written; of
// objects, `describe` appends the rows of what is within.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "plan/format/spec.hpp"
#include "plan/words/names.hpp"
#include "plan/words/units.hpp"

namespace weir::format {

template <class V>
concept Optional = requires(V value) {
  value.has_value();
};
template <class V>
concept Quantity = requires(V value) {
  value.count();
};

// Numbers, texts, booleans and lists of them; of quantities the count, so that their keys end in
// the unit.
struct Plain {
  template <class V>
  static constexpr const char* type() {
    if constexpr (Optional<V>) return type<typename V::value_type>();
    if constexpr (Quantity<V>) return type<decltype(V{}.count())>();
    if (std::same_as<V, bool>) return "boolean";
    if (std::same_as<V, std::string>) return "text";
    if (std::same_as<V, std::vector<int>>) return "list of integers";
    return std::integral<V> ? "integer" : std::floating_point<V> ? "number" : "list of texts";
  }
  template <class V>
  static void read(const Spec& key, JsonObject& object, V& value) {
    const auto [low, high] = key.range;
    // Integers without an end go to 2^40.
    const double last = high < Range{}.high ? high : 1LL << 40;
    if constexpr (Quantity<V>) {
      auto count = value.count();
      read(key, object, count);
      value = V(count);
    } else if constexpr (std::same_as<V, bool>) {
      value = object.boolean(key.name);
    } else if constexpr (std::integral<V>) {
      value = static_cast<V>(object.integer(key.name, low, last));
    } else if constexpr (std::floating_point<V>) {
      value = object.number(key.name, low, high);
    } else if constexpr (std::same_as<V, std::string>) {
      value = object.text(key.name);
    } else if constexpr (std::same_as<V, std::vector<int>>) {
      const auto all = object.integers(key.name, low, last);
      value.assign(all.begin(), all.end());
    } else {
      value = object.texts(key.name);
    }
  }
  static Json write(const Spec&, const auto& value) { return value; }
  static Json write(const Spec&, const Quantity auto& value) { return value.count(); }
};

// Quantities as texts with their unit, "80 GiB", "4 us", "300 GB/s"; rates are above 0. The range
// is of seconds and of bytes/s.
struct WithUnit {
  static constexpr const char* kType = "text";
  static void read(const Spec& key, JsonObject& object, Bytes& value);
  static void read(const Spec& key, JsonObject& object, Seconds& value);
  static void read(const Spec& key, JsonObject& object, BytesPerSecond& value);
  // Bytes by the largest unit that leaves whole numbers: what was "80 GB" is so again. The others
  // to six digits, a rate of 0 as "unlimited".
  static Json write(const Spec&, Bytes value);
  static Json write(const Spec&, Seconds value);
  static Json write(const Spec&, BytesPerSecond value);
};
// A rate that may also be "unlimited", which is 0: times do not grow with the size.
struct RateOrNone : WithUnit {
  static void read(const Spec& key, JsonObject& object, BytesPerSecond& value);
};

// A share above 0.
struct Portion : Plain {
  static constexpr const char* kType = "number";
  static void read(const Spec& key, JsonObject& object, double& value);
};

// The word that `kParse` knows and to_string() writes. The key says what is expected.
template <auto kParse>
struct Word {
  static constexpr const char* kType = "text";
  static void read(const Spec& key, JsonObject& object, auto& value) {
    const auto known = kParse(object.text(key.name));
    if (!known) object.fail(key.name, key.expected);
    value = *known;
  }
  static Json write(const Spec&, const auto& value) { return to_string(value); }
};

// A word of a table; without an expectation all of them are listed.
template <auto& kNames>
struct Named {
  static constexpr const char* kType = "text";
  static void read(const Spec& key, JsonObject& object, auto& value) {
    const auto known = named(kNames, object.text(key.name));
    std::string expected = key.expected;
    if (!known && expected.empty()) {
      for (const auto& [each, word] : kNames)
        expected += (expected.empty() ? "expected one of " : ", ") + std::string(word);
    }
    if (!known) object.fail(key.name, expected);
    value = *known;
  }
  static Json write(const Spec&, const auto& value) { return name_of(kNames, value); }
};

// What is read and dropped, since it follows from other keys or is for people.
template <class V>
struct Dropped {
  static constexpr const char* kType = Plain::type<V>();
  static void read(const Spec& key, JsonObject& object, const auto&) {
    V value{};
    Plain::read(key, object, value);
  }
};

// The format's name and version, which is what the key expects.
struct Schema {
  static constexpr const char* kType = "text";
  static void read(const Spec& key, JsonObject& object, const auto&) {
    object.expect_schema(key.expected);
  }
  static Json write(const Spec& key, const auto&) { return key.expected; }
};

// Two members in a list of two.
template <auto kFirst, auto kSecond>
struct Pair {
  static constexpr const char* kType = "list of integers";
  static void read(const Spec& key, JsonObject& object, auto& value) {
    std::vector<int> both;
    Plain::read(key, object, both);
    if (both.size() != 2) object.fail(key.name, key.expected);
    value.*kFirst = both[0];
    value.*kSecond = both[1];
  }
  static Json write(const Spec&, const auto& value) { return {value.*kFirst, value.*kSecond}; }
};

}  // namespace weir::format

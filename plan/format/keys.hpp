// A file format described once. An object's keys are a table, in the order of the file:
//
//   constexpr Key<IntervalModel> kInterval[] = {
//       key<&IntervalModel::nominal>("nominal", "0.9", {0, 1}),
//       key<&IntervalModel::quantile>("quantile", "of the scores", {0, 1e6})};
//   IntervalModel model = read(object, kInterval);
//   Json json = written(model, kInterval);
//   Section section = described("interval", kInterval);  // the table of docs/formats.md
//
// What must hold between keys is a function, called when all of them are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "plan/format/kinds.hpp"

namespace weir::format {

// One key of a T in a file.
template <class T>
struct Key {
  using Of = T;
  Spec spec;
  void (*read)(const Spec&, JsonObject&, T&);
  void (*write)(const Spec&, const T&, Json&);
  void (*within)(const std::string& path, Rows&);  // describes what is within; none: nothing is
};
template <auto& kKeys>
using Described = typename std::remove_cvref_t<decltype(kKeys[0])>::Of;

inline constexpr std::identity kWhole;  // in place of a member: the kind looks at all of the object
inline constexpr auto kAlways = [](const auto&) { return true; };
inline constexpr auto kUnchecked = [](const JsonObject&, const auto&) {};

void read_into(JsonObject& object, auto& value, const auto& keys) {
  for (const auto& key : keys) key.read(key.spec, object, value);
}

// All of an object: a key that is not described is refused.
template <class T, std::size_t N, class Check = decltype(kUnchecked)>
[[nodiscard]] T read(JsonObject& object, const Key<T> (&keys)[N], Check check = kUnchecked) {
  T value;
  read_into(object, value, keys);
  check(object, value);
  object.finish();
  return value;
}

void write_into(Json& json, const auto& value, const auto& keys) {
  for (const auto& key : keys) key.write(key.spec, value, json);
}
[[nodiscard]] Json written(const auto& value, const auto& keys) {
  Json json = Json::object();
  write_into(json, value, keys);
  return json;
}

void describe(const auto& keys, const std::string& within, Rows& rows) {
  for (const auto& key : keys) {
    const std::string path = describe_key(key.spec, within, rows);
    if (key.within != nullptr && key.spec.section == nullptr) key.within(path, rows);
  }
}
[[nodiscard]] Section described(std::string title, const auto& keys) {
  Section section{std::move(title), {}};
  describe(keys, "", section.rows);
  return section;
}

// What a T is by default.
template <class T>
[[nodiscard]] const T& unsaid_of() {
  static const T kUnsaid{};
  return kUnsaid;
}

// A key on its way into a table: the member is known, and when there is such a key; the object is
// known in the table.
template <auto kMember, class Kind, auto kWhere = kAlways>
struct Made : Spec {
  // Is there, and may be null.
  constexpr Made& nullable() {
    may_be_null = true;
    return *this;
  }
  // Is always written, though it may be absent.
  constexpr Made& kept() {
    only_said = false;
    return *this;
  }
  constexpr Made& expect(const char* complaint) {
    expected = complaint;
    return *this;
  }
  constexpr Made& refuse(const char* complaint) {
    refused = complaint;
    return *this;
  }
  constexpr Made& in(const char* title) {
    section = title;
    return *this;
  }
  // Only of objects for which the keys before it say so.
  template <auto kOnly>
  constexpr Made<kMember, Kind, kOnly> where() const {
    return {*this};
  }

  template <class T>
  constexpr operator Key<T>() const {  // NOLINT: a table's rows are written without its type
    Key<T> made{*this, read<T>, write<T>, nullptr};
    if constexpr (requires { Kind::kType; }) {
      made.spec.type = Kind::kType;
    } else {
      using Value = std::invoke_result_t<decltype(kMember), T&>;
      made.spec.type = Plain::type<std::remove_cvref_t<Value>>();
    }
    if constexpr (requires { Kind::describe; }) made.within = Kind::describe;
    return made;
  }

 private:
  template <class T>
  static void read(const Spec& key, JsonObject& object, T& holder) {
    if (!kWhere(holder) || !is_there(key, object)) return;
    auto& value = std::invoke(kMember, holder);
    if constexpr (Optional<decltype(value)>) {
      Kind::read(key, object, value.emplace());
    } else {
      Kind::read(key, object, value);
    }
    if (key.refused != nullptr && !says(holder)) object.fail(key.name, key.refused);
  }
  template <class T>
  static void write(const Spec& key, const T& holder, Json& json) {
    const auto& value = std::invoke(kMember, holder);
    if (!kWhere(holder) || (key.only_said && !says(holder))) return;
    if constexpr (Optional<decltype(value)>) {
      put(key, value ? Kind::write(key, *value) : Json(), json);
    } else if constexpr (requires { Kind::write(key, value); }) {
      put(key, Kind::write(key, value), json);
    }
  }
  // Whether the value is another than by default.
  template <class T>
  static bool says(const T& holder) {
    const auto &value = std::invoke(kMember, holder),
               &unsaid = std::invoke(kMember, unsaid_of<T>());
    if constexpr (requires { value.empty(); }) {
      return !value.empty();
    } else if constexpr (std::equality_comparable<decltype(value)>) {
      return value != unsaid;
    } else if constexpr (Optional<decltype(value)>) {
      return value.has_value();
    } else {
      return true;
    }
  }
};

template <auto kMember, class Kind = Plain>
constexpr Made<kMember, Kind> key(const char* name, const char* cells = "", Range range = {}) {
  return {{name, cells, range}};
}

// One that may be left out: the value is then what it is in a T by default, and only others are
// written.
template <auto kMember, class Kind = Plain>
constexpr Made<kMember, Kind> maybe(const char* name, const char* cells, Range range = {}) {
  return {{name, cells, range, true, false, true}};
}
// One that may be left out or null.
template <auto kMember, class Kind = Plain>
constexpr Made<kMember, Kind> or_null(const char* name, const char* cells, Range range = {}) {
  return {{name, cells, range, true, true, true}};
}

// A member that is an object.
template <auto& kKeys, auto kCheck = kUnchecked>
struct Object {
  static constexpr const char* kType = "object";
  static void read(const Spec& key, JsonObject& object, auto& value) {
    JsonObject inner = object.object(key.name);
    value = format::read(inner, kKeys, kCheck);
  }
  static Json write(const Spec&, const auto& value) { return written(value, kKeys); }
  static void describe(const std::string& path, Rows& rows) {
    format::describe(kKeys, path + ".", rows);
  }
};

// A list of objects in a vector, or in a map whose elements are described as pairs. `kCheck` looks
// at each, and `kBefore` at each that is not yet read, beside those that came before it.
template <auto& kKeys, auto kCheck = kUnchecked, auto kBefore = kUnchecked>
struct Objects {
  static constexpr const char* kType = "list of objects";
  static void read(const Spec& key, JsonObject& object, auto& all) {
    for (JsonObject& inner : object.objects(key.name)) {
      kBefore(inner, all);
      auto value = format::read(inner, kKeys, kCheck);
      if constexpr (requires { all.push_back(value); }) {
        all.push_back(std::move(value));
      } else {
        all[value.first] = std::move(value.second);
      }
    }
  }
  static Json write(const Spec&, const auto& all) {
    Json list = Json::array();
    for (const auto& item : all) {
      const Described<kKeys>& value = item;  // of a map's element, whose key is constant, a copy
      list.push_back(written(value, kKeys));
    }
    return list;
  }
  static void describe(const std::string& path, Rows& rows) {
    format::describe(kKeys, path + "[].", rows);
  }
};

// A member whose keys stand among those of the object around it.
template <auto kMember, auto& kKeys, auto kCheck>
struct Inlined {
  template <class T>
  constexpr operator Key<T>() const {  // NOLINT: as Made
    return {{.name = ""},
            [](const Spec&, JsonObject& object, T& holder) {
              read_into(object, std::invoke(kMember, holder), kKeys);
              kCheck(object, std::invoke(kMember, holder));
            },
            [](const Spec&, const T& holder, Json& json) {
              write_into(json, std::invoke(kMember, holder), kKeys);
            },
            [](const std::string& path, Rows& rows) { format::describe(kKeys, path, rows); }};
  }
};
template <auto kMember, auto& kKeys, auto kCheck = kUnchecked>
inline constexpr Inlined<kMember, kKeys, kCheck> inlined{};

}  // namespace weir::format

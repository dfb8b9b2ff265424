// What a Python file of settings comes to without being run: numbers, texts, lists, and objects
// that stand for every call of a function that the file does not define.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weir {

struct PythonValue;

struct PythonList {
  std::vector<PythonValue> values;
};
struct PythonDict {
  std::map<std::string, PythonValue> values;
};
// Trainer.Config(training=...): the callee, what it was given by place, and by name or later by
// assignment.
struct PythonObject {
  std::string callee;
  std::vector<PythonValue> places;
  std::map<std::string, PythonValue> fields;
  // Of what a checkpoint's methods make, its name: "Qwen/Qwen3-8B" of
  // AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(). Empty: none is known.
  std::string made_from = {};
};
// A name of another file, or what cannot be known without running it: as the file says it.
struct PythonUnknown {
  std::string source;
};

struct PythonValue {
  // An object is shared as in Python, where two names may mean the same one.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, PythonList, PythonDict,
               std::shared_ptr<PythonObject>, PythonUnknown>
      is;

  [[nodiscard]] bool none() const { return std::holds_alternative<std::monostate>(is); }
  [[nodiscard]] const PythonUnknown* unknown() const { return std::get_if<PythonUnknown>(&is); }
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&is); }
  [[nodiscard]] const PythonList* list() const { return std::get_if<PythonList>(&is); }
  [[nodiscard]] const PythonDict* dict() const { return std::get_if<PythonDict>(&is); }
  [[nodiscard]] const PythonObject* object() const {
    const auto* shared = std::get_if<std::shared_ptr<PythonObject>>(&is);
    return shared == nullptr ? nullptr : shared->get();
  }
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] std::optional<double> number() const;
  // What `if` makes of it; nullopt where that is not known.
  [[nodiscard]] std::optional<bool> truth() const;
  // An object's field or a dictionary's value; nullptr where there is none.
  [[nodiscard]] const PythonValue* field(std::string_view name) const;
  // The field of a field: "training.seq_len".
  [[nodiscard]] const PythonValue* at(std::string_view path) const;
};

// As Python writes it, on one line; of what is deep, long or holds itself the beginning.
[[nodiscard]] std::string to_string(const PythonValue& value);

// How many values a copy has: lists and dictionaries are copied with all that they hold, an object
// is one, and so are 64 letters. kTooDeep where they stand too deep within each other.
[[nodiscard]] std::size_t weight(const PythonValue& value);
inline constexpr std::size_t kTooDeep = std::size_t{1} << 40;
inline constexpr std::size_t kBytesOfValue = 64;

// Holds all objects of a file that is followed, which may hold each other and themselves, and lets
// go of them one by one.
class PythonHeap {
 public:
  PythonHeap() = default;
  PythonHeap(PythonHeap&&) = default;
  PythonHeap(const PythonHeap&) = delete;
  PythonHeap& operator=(const PythonHeap&) = delete;
  ~PythonHeap();
  std::shared_ptr<PythonObject> make(PythonObject object);

 private:
  std::vector<std::shared_ptr<PythonObject>> objects_;
};

}  // namespace weir

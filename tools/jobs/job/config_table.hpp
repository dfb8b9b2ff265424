// A job's configuration in YAML or JSON while it is being read: keys are dotted paths, with '_' for
// '-', every complaint is an InputError with file and key, and the table knows which keys were
// asked for. YAML itself is yaml-cpp's business, behind this header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/jobs/job/job.hpp"

namespace weir {

// The value behind `key` in the mappings of a list: of "defaults: [{train: 8b}]" that of train is
// 8b. nullopt: none has it. Throws as ConfigTable does.
[[nodiscard]] std::optional<std::string> value_in_list(const std::string& text,
                                                       const std::string& file,
                                                       const std::string& list,
                                                       const std::string& key);

// Every value of such a mapping by its path, "a.b"; a list as "[x,y]". Throws as ConfigTable does.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> values_by_path(
    const std::string& text, const std::string& file);

class ConfigTable {
 public:
  // Several documents, or files one after another, are one table, whose keys differ. Throws
  // InputError with the line of a syntax error, and for more than 100,000 values.
  ConfigTable(const std::string& text, std::string file);

  [[nodiscard]] bool has(std::string_view path) const;  // a value, or a table with one
  [[nodiscard]] bool flag_or(std::string_view path, bool otherwise);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view path, std::int64_t low,
                                                    std::int64_t high);
  [[nodiscard]] std::int64_t integer_or(std::string_view path, std::int64_t otherwise,
                                        std::int64_t low, std::int64_t high);
  [[nodiscard]] double number_or(std::string_view path, double otherwise, double low, double high);
  [[nodiscard]] std::string text_or(std::string_view path, std::string otherwise);
  // "auto", which the training script fills in; read as if it were not there.
  [[nodiscard]] bool is_auto(std::string_view path) const;
  // The values of a list and of the lists in it, in order.
  [[nodiscard]] std::vector<std::string> list(std::string_view path);
  // As if the file had it, in the place of "auto" too. A file that says another value is
  // contradicted: UsageError, by the plan's word for it.
  void fill(std::string_view path, const std::string& value, std::string_view field);
  // Another value in place of the file's, as a reference that is followed.
  void replace(std::string_view path, std::string value);
  [[nodiscard]] std::map<std::string, std::string> texts() const;  // all, for people

  // Every value with what became of it; `unread` says what one means that nobody asked for. Throws
  // InputError for one that switches on what is not modelled (unmodelled.hpp).
  void account_for(UnreadArgument (*unread)(std::string_view path), Job& job) const;
  [[noreturn]] void fail(std::string_view path, const std::string& message) const;

 private:
  struct Leaf {
    std::vector<std::string> values;  // one of a plain value, none where it is null
    bool read = false;
  };
  const Leaf* find(std::string_view path);
  // The one value; nullptr where it is not given, null or "auto".
  const std::string* value(std::string_view path);
  std::string file_;
  std::map<std::string, Leaf, std::less<>> leaves_;
};

}  // namespace weir

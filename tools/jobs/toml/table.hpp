// A TOML file while it is being read: keys are dotted paths, every complaint is an InputError with
// file and key, and the table knows which keys were asked for. TOML itself is toml++'s business,
// behind this header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

class TomlTable {
 public:
  TomlTable(const std::string& text,
            std::string file);  // throws InputError with the line of a syntax error
  TomlTable(const TomlTable&) = delete;
  TomlTable& operator=(const TomlTable&) = delete;
  ~TomlTable();

  [[nodiscard]] bool has(std::string_view path) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view path, std::int64_t low,
                                                    std::int64_t high);
  [[nodiscard]] std::int64_t integer_or(std::string_view path, std::int64_t otherwise,
                                        std::int64_t low, std::int64_t high);
  [[nodiscard]] bool flag_or(std::string_view path, bool otherwise);
  [[nodiscard]] double number_or(std::string_view path, double otherwise, double low, double high);
  [[nodiscard]] std::string text_or(std::string_view path, std::string otherwise);
  // A list of lists of texts, and a list of texts (or one text with commas).
  [[nodiscard]] std::vector<std::vector<std::string>> lists(std::string_view path);
  [[nodiscard]] std::vector<std::string> list(std::string_view path);

  struct Leaf {
    std::string path;
    std::string value;  // for people
  };
  [[nodiscard]] std::vector<Leaf> leaves() const;  // all, sorted by path
  [[nodiscard]] bool was_read(std::string_view path) const { return known_.contains(path); }
  [[noreturn]] void fail(std::string_view path, const std::string& message) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
  std::string file_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace weir

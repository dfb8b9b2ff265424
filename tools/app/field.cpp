// Names of fields, and the files they name.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/field.hpp"

#include <algorithm>
#include <sstream>
#include <type_traits>

namespace weir::app {
namespace {

using Path = std::filesystem::path;

// The files that a target names: those of sources, too, where they are files and not things in
// memory.
std::vector<Path> files_of(const Target& target) {
  std::vector<Path> files;
  const auto add = [&](const auto& source) {
    using Source = std::decay_t<decltype(source)>;
    if constexpr (std::is_same_v<Source, Path>) {
      files.push_back(source);
    } else if (const auto* file = std::get_if<Path>(&source)) {
      files.push_back(*file);
    }
  };
  std::visit(
      [&](const auto* value) {
        using Value = std::decay_t<decltype(*value)>;
        if constexpr (std::is_same_v<Value, std::optional<Path>>) {
          if (*value) files.push_back(**value);
        } else if constexpr (std::is_same_v<Value, std::vector<Path>> ||
                             std::is_same_v<Value, std::vector<TraceSource>>) {
          std::ranges::for_each(*value, add);
        } else if constexpr (std::is_same_v<Value, ScheduleChoice>) {
          const auto* name = std::get_if<std::string>(value);
          if (name != nullptr && name->ends_with(".csv")) files.emplace_back(*name);
        } else if constexpr (std::is_same_v<Value, Path> || std::is_same_v<Value, PlanSource> ||
                             std::is_same_v<Value, CostsSource> ||
                             std::is_same_v<Value, TraceSource>) {
          add(*value);
        }
      },
      target);
  return files;
}

}  // namespace

std::vector<std::string> long_names(const Field& field) {
  std::vector<std::string> names;
  std::istringstream in(field.names);
  for (std::string name; std::getline(in, name, ',');) {
    if (name.starts_with("--")) names.push_back(name.substr(2));
    if (!name.starts_with("-")) names.push_back(name);
  }
  return names;
}

void append(Fields& fields, Fields more) { std::ranges::move(more, std::back_inserter(fields)); }

std::vector<Path> files_read(const Fields& fields) {
  std::vector<Path> files;
  for (const Field& field : fields) {
    if (!field.traits.writes) std::ranges::move(files_of(field.target), std::back_inserter(files));
  }
  return files;
}

}  // namespace weir::app

// Names of fields, and the files they name.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/field.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>
#include <type_traits>

#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"

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
    } else if (const auto* file = std::get_if<Path>(&source); file != nullptr && !file->empty()) {
      files.push_back(*file);  // an empty one was not given
    }
  };
  const auto add_schedule = [&](const ScheduleChoice& choice) {
    const auto* name = std::get_if<std::string>(&choice);
    if (name != nullptr && name->ends_with(".csv")) files.emplace_back(*name);
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
          add_schedule(*value);
        } else if constexpr (std::is_same_v<Value, std::vector<ScheduleChoice>>) {
          std::ranges::for_each(*value, add_schedule);
        } else if constexpr (std::is_same_v<Value, Path> || std::is_same_v<Value, PlanSource> ||
                             std::is_same_v<Value, CostsSource> ||
                             std::is_same_v<Value, TraceSource>) {
          add(*value);
        }
      },
      target);
  return files;
}

// Whether folders can be made in a folder, which its rights alone do not say (/proc). Made by a
// name of its own: another process may be making the one that is meant.
std::optional<std::string> why_none_is_made(const Path& folder) {
  std::string probe = (folder / ".weir-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr) return std::generic_category().message(errno);
  ::rmdir(probe.c_str());
  return std::nullopt;
}

// A folder that may be written into, or one that can be made. Nothing is made: the work may yet be
// refused.
void require_writable_folder(const Path& folder) {
  const Path absolute = std::filesystem::absolute(folder);
  const auto cannot = [&](const std::string& why) {
    return InputError(folder.string(), "", "cannot be written: " + why);
  };
  // The nearest folder that exists decides whether the rest can be made.
  Path there = absolute;
  Path missing;          // its child on the way to `absolute`
  std::error_code none;  // what cannot be looked at is not there
  while (there.has_relative_path() && !std::filesystem::exists(there, none)) {
    // The names below are not looked at before they are made.
    if (std::ssize(there.filename().string()) > ::pathconf("/", _PC_NAME_MAX))
      throw cannot(std::generic_category().message(ENAMETOOLONG));
    missing = there;
    there = there.parent_path();
  }
  if (!std::filesystem::is_directory(there, none)) throw cannot(there.string() + " is no folder");
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    throw cannot(std::generic_category().message(errno));
  if (missing.empty()) return;
  // A link that leads nowhere takes the place of the folder.
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(missing, none)))
    throw cannot(missing.string() + " is a link to nothing");
  if (const auto why = why_none_is_made(there)) throw cannot(*why);
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
    if (field.traits.writes == Writes::nothing)
      std::ranges::move(files_of(field.target), std::back_inserter(files));
  }
  return files;
}

void require_choices(const Field& field, const std::vector<std::string>& texts) {
  const auto& choices = field.traits.choices;
  if (choices.empty()) return;
  for (const std::string& text : texts) {
    if (std::ranges::find(choices, text) != choices.end()) continue;
    throw UsageError(fmt::format("--{} {}: expected {}{}", long_names(field).front(), text,
                                 fmt::join(choices, ", "),
                                 did_you_mean(text, {choices.begin(), choices.end()})));
  }
}

void try_outputs(const Fields& fields, const Session& session) {
  for (const Field& field : fields) {
    const Writes writes = field.traits.writes;
    if (writes == Writes::nothing) continue;
    for (const Path& path : files_of(field.target)) {
      if (path.empty() || path == "-") continue;
      if (writes == Writes::folder) {
        require_writable_folder(path);
      } else {
        require_writable_folder(std::filesystem::absolute(path).parent_path());
        std::error_code none;  // what cannot be looked at is told where it is written
        if (std::filesystem::is_directory(path, none))
          throw InputError(path.string(), "", "cannot be written: it is a folder");
        // Guarded as well: an output must not be one of the inputs.
        static_cast<void>(session.output(path));
      }
    }
  }
}

}  // namespace weir::app

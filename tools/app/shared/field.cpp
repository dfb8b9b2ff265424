// Names of fields, and the files they name.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/field.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>
#include <system_error>
#include <type_traits>

#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "tools/app/shared/hub.hpp"

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

// Whether a name of a file or folder is empty. Sources in memory have none.
bool has_empty_name(const Target& target) {
  const auto is_empty = [](const auto& source) {
    using Source = std::decay_t<decltype(source)>;
    if constexpr (std::is_same_v<Source, Path>) {
      return source.empty();
    } else {
      const auto* file = std::get_if<Path>(&source);
      return file != nullptr && file->empty();
    }
  };
  return std::visit(
      [&](const auto* value) {
        using Value = std::decay_t<decltype(*value)>;
        if constexpr (std::is_same_v<Value, std::optional<Path>>) {
          return *value && (*value)->empty();
        } else if constexpr (std::is_same_v<Value, std::vector<Path>> ||
                             std::is_same_v<Value, std::vector<TraceSource>>) {
          return std::ranges::any_of(*value, is_empty);
        } else if constexpr (std::is_same_v<Value, Path> || std::is_same_v<Value, PlanSource> ||
                             std::is_same_v<Value, CostsSource> ||
                             std::is_same_v<Value, TraceSource>) {
          return is_empty(*value);
        } else {
          return false;
        }
      },
      target);
}

// Whether a list has nothing in it; what is no list has.
bool is_empty_list(const Target& target) {
  return std::visit(
      [](const auto* value) {
        using Value = std::decay_t<decltype(*value)>;
        if constexpr (!std::is_same_v<Value, std::string> && requires { value->front(); }) {
          return value->empty();
        } else {
          return false;
        }
      },
      target);
}

// An option as people write it, an argument by place by its name; of several names the one that is
// as the file's ending: --pdf of a picture.pdf.
std::string shown_name(const Field& field, const Path& file = {}) {
  const std::vector<std::string> names = long_names(field);
  const auto own = std::ranges::find(names, file.extension().string(),
                                     [](const std::string& name) { return "." + name; });
  return (field.names.starts_with("-") ? "--" : "") + (own == names.end() ? names.front() : *own);
}

// What the fields write, by the file: two that write one would leave the last one's.
class Written {
 public:
  void add(const Path& path, const std::string& option) {
    std::error_code none;  // what cannot be looked at is told where it is written
    // A device or a pipe takes what everybody writes.
    const auto status = std::filesystem::status(path, none);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
        !std::filesystem::is_directory(status))
      return;
    const Path same = std::filesystem::weakly_canonical(std::filesystem::absolute(path), none);
    const auto [before, is_new] = by_file_.emplace(none ? path : same, option);
    if (is_new) return;
    throw UsageError(fmt::format("{} and {} both write {}: expected a file each", before->second,
                                 option, path.string()));
  }

 private:
  std::map<Path, std::string> by_file_;
};

// Whether folders can be made in a folder, which its rights alone do not say (/proc). Made by a
// name of its own: another process may be making the one that is meant.
std::optional<std::string> why_none_is_made(const Path& folder) {
  std::string probe = (folder / ".weir-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr) return std::generic_category().message(errno);
  ::rmdir(probe.c_str());
  return std::nullopt;
}

// A folder that may be written into, or one that can be made. Nothing is made: the work may yet be
// refused. `named_by`: the option, where it names this folder itself.
void require_writable_folder(const Path& folder, const std::string& named_by = "") {
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
  if (!std::filesystem::is_directory(there, none)) {
    throw cannot(fmt::format("{} is no folder{}", there.string(),
                             named_by.empty() ? "" : fmt::format(", {} names one", named_by)));
  }
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

const Field* first_missing(const Fields& fields, const std::set<std::string>& given) {
  const auto found = std::ranges::find_if(fields, [&](const Field& field) {
    return field.traits.required &&
           (!given.contains(long_names(field).front()) || is_empty_list(field.target));
  });
  return found == fields.end() ? nullptr : &*found;
}

namespace {

// Throws where a file cannot be written there, or what is read would be written over.
void try_file(const Path& path, const std::string& option, const Session& session) {
  require_writable_folder(std::filesystem::absolute(path).parent_path());
  std::error_code none;  // what cannot be looked at is told where it is written
  if (std::filesystem::is_directory(path, none)) {
    throw InputError(path.string(), "",
                     fmt::format("cannot be written: it is a folder, {} names a file", option));
  }
  // Guarded as well: an output must not be one of the inputs.
  static_cast<void>(session.output(path));
}

}  // namespace

void find_models(const Fields& fields) {
  // What stands by its place is then a job of another tool.
  const bool job = std::ranges::any_of(fields, [](const Field& field) {
    const auto* const* text = std::get_if<std::string*>(&field.target);
    return field.names == "--from" && text != nullptr && !(*text)->empty();
  });
  for (const Field& field : fields) {
    if (!field.traits.model || (job && !field.names.starts_with("-"))) continue;
    if (auto* const* path = std::get_if<Path*>(&field.target)) {
      if (!(*path)->empty()) **path = model_file(**path);
    } else if (auto* const* may_be = std::get_if<std::optional<Path>*>(&field.target)) {
      if (**may_be) **may_be = model_file(***may_be);
    }
  }
}

void try_outputs(const Fields& fields, const Session& session) {
  Written files;
  for (const Field& field : fields) {
    // A name that a script left empty is not silently as if the option was not there.
    if (session.given(long_names(field).front()) && has_empty_name(field.target))
      throw UsageError(shown_name(field) + ": expected a name, found an empty one");
    const Writes writes = field.traits.writes;
    if (writes == Writes::nothing) continue;
    for (const Path& path : files_of(field.target)) {
      if (path.empty() || path == "-") continue;
      const std::string option = shown_name(field, path);
      if (writes == Writes::folder) {
        require_writable_folder(path, option);
        continue;
      }
      try_file(path, option, session);
      files.add(path, option);
      if (field.traits.with_it != nullptr) files.add(field.traits.with_it(path), option);
    }
  }
}

}  // namespace weir::app

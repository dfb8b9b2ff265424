// Opens what a path names, and the files that an index names beside it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/weight_files.hpp"

#include <fmt/format.h>

#include <set>
#include <system_error>

#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::size_t kMostFiles = 4096;

bool is_folder(const std::filesystem::path& path) {
  std::error_code none;  // as in `within`
  return std::filesystem::is_directory(path, none);
}

std::filesystem::path within(const std::filesystem::path& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    std::error_code none;  // what cannot be looked at is told where it is opened
    if (std::filesystem::exists(folder / name, none)) return folder / name;
  }
  throw InputError(folder.string(), "",
                   "has neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace

WeightFiles::WeightFiles(const std::filesystem::path& path)
    : path_(is_folder(path) ? within(path) : path) {
  if (path_.extension() == ".json") {
    open_index();
  } else {
    add(path_);
  }
  // Only now: what the files hold no longer moves.
  for (const SafetensorsFile& file : files_) {
    for (const auto& [name, tensor] : file.tensors()) {
      if (!by_name_.emplace(name, &tensor).second)
        throw InputError(path_.string(), name, "is in two files");
    }
  }
}

void WeightFiles::add(const std::filesystem::path& file) {
  files_.emplace_back(file);
  files_.back().check_seal(file.string());
}

std::string WeightFiles::sha256() const {
  Sha256 digest;
  for (const SafetensorsFile& file : files_) file.add_to(digest);
  return digest.hex();
}

void WeightFiles::open_index() {
  const Json json = parse_json(read_text_file(path_), path_.string());
  JsonObject index(json, path_.string(), "");
  const Json& map = index.at("weight_map");
  if (!map.is_object()) index.fail("weight_map", "expected an object of file names");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    // A file beside the index: a path could lead anywhere.
    if (!file.is_string() ||
        std::filesystem::path(file.get<std::string>()).filename() != file.get<std::string>()) {
      index.fail("weight_map", fmt::format("{}: expected a file beside it", tensor.substr(0, 80)));
    }
    names.insert(file.get<std::string>());
  }
  if (names.size() > kMostFiles)
    index.fail("weight_map", fmt::format("more than {} files", kMostFiles));
  // In the order of names, so that files are read alike on every system.
  std::map<std::string, std::size_t> place;
  for (const std::string& name : names) {
    place[name] = files_.size();
    add(path_.parent_path() / name);
  }
  for (const auto& [tensor, file] : map.items()) {
    const std::string in = file.get<std::string>();
    if (!files_[place.at(in)].tensors().contains(tensor))
      index.fail("weight_map", fmt::format("{}: is not in {}", tensor.substr(0, 80), in));
  }
}

const StoredTensor* WeightFiles::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace weir

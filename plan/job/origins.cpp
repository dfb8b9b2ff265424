// Reads, writes and finds the origins of constants.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/origins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/job/left_out.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr int kFewestRows = 3;  // of a fit: one row, or two, fit any constant

// Keys of a file that hold no constant.
constexpr std::array<std::string_view, 4> kNoConstants{"schema", "name", "origin", "origins"};

void collect(const Json& value, const std::string& path, const Origins& origins,
             std::vector<Constant>& found) {
  if (!value.is_object()) {
    found.push_back({path, value, origin_of(origins, path)});
    return;
  }
  for (const auto& [key, inner] : value.items()) {
    if (key != "name") collect(inner, fmt::format("{}.{}", path, key), origins, found);
  }
}

}  // namespace

Origins read_origins(JsonObject object) {
  Origins origins;
  std::vector<std::string> paths = object.unread();
  for (const std::string& path : paths) {
    JsonObject entry = object.object(path);
    Origin origin{entry.text("source"), std::nullopt};
    if (entry.has("rows"))
      origin.rows = static_cast<int>(entry.integer("rows", kFewestRows, 1'000'000));
    origin.chosen_seeing = entry.text_or("chosen_seeing", "");
    static_cast<void>(read_left_out(entry));  // of a cross-validation, by without_source()
    entry.finish();
    origins.emplace(path, std::move(origin));
  }
  return origins;
}

Json to_json(const Origins& origins) {
  Json json = Json::object();
  for (const auto& [path, origin] : origins) {
    Json entry{{"source", origin.source}};
    if (origin.rows) entry["rows"] = *origin.rows;
    if (!origin.chosen_seeing.empty()) entry["chosen_seeing"] = origin.chosen_seeing;
    json[path] = std::move(entry);
  }
  return json;
}

const Origin* origin_of(const Origins& origins, const std::string& path) {
  for (std::string at = path;;) {
    if (const auto found = origins.find(at); found != origins.end()) return &found->second;
    const auto dot = at.rfind('.');
    if (dot == std::string::npos) return nullptr;
    at.resize(dot);
  }
}

void replace_origin(Origins& origins, const std::string& path, std::string source) {
  std::erase_if(origins, [within = path + "."](const auto& entry) {
    return entry.first.starts_with(within);
  });
  origins[path] = {std::move(source), std::nullopt};
}

std::vector<Constant> constants_of(const Json& file, const Origins& origins) {
  std::vector<Constant> found;
  for (const auto& [key, value] : file.items()) {
    if (std::ranges::find(kNoConstants, key) == kNoConstants.end())
      collect(value, key, origins, found);
  }
  return found;
}

void check_origins(const Json& json, const Origins& origins, const std::string& file) {
  for (const Constant& constant : constants_of(json, origins)) {
    if (constant.origin != nullptr) continue;
    throw InputError(file, "origins",
                     fmt::format("nothing says where {} comes from: expected an entry for it or "
                                 "for an object around it",
                                 constant.path));
  }
}

}  // namespace weir

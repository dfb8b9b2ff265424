// Reads, writes and finds the origins of constants.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/origins.hpp"

#include <vector>

namespace weir {
namespace {

constexpr int kFewestRows = 3;  // of a fit: one row, or two, fit any constant

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

}  // namespace weir

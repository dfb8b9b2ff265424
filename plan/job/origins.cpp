// Reads, writes and finds the origins of constants.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/origins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/format/keys.hpp"
#include "plan/job/formats.hpp"
#include "plan/job/left_out.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace format {
namespace {

// Of a cross-validation, by without_source().
struct WithoutSource {
  static constexpr const char* kType = "object";
  static void read(const Spec&, JsonObject& certificate, const Origin&) {
    static_cast<void>(read_left_out(certificate));
  }
  static void describe(const std::string& path, Rows& rows) {
    rows.push_back({path + ".*", "any", "| | null: as where the constant is left out"});
  }
};
constexpr Key<Origin> kOrigin[] = {
    key<&Origin::source>("source", "a datasheet, a file that was read, or the rows of a fit"),
    // One row, or two, fit any constant.
    maybe<&Origin::rows>("rows", "| of a fit | rows it was fitted to, at least three",
                         {3, 1'000'000}),
    or_null<&Origin::chosen_seeing>("chosen_seeing",
                                    "| where errors were visible when it was chosen | which"),
    maybe<kWhole, WithoutSource>(
        "left_out",
        "| may be left out, beside `chosen_seeing` | by source of measured runs (those of a "
        "cross-validation) that were seen: the constant without them"),
};

}  // namespace

void ByPath::read(const Spec& key, JsonObject& object, Origins& origins) {
  origins = read_origins(object.object(key.name));
}
Json ByPath::write(const Spec&, const Origins& origins) { return to_json(origins); }
void ByPath::describe(const std::string& path, Rows& rows) {
  rows.push_back({path + ".*", "object", "| | "});
  format::describe(kOrigin, path + ".*.", rows);
}

}  // namespace format

namespace {

// Keys of a file that hold no constant of the machine. What its hours cost is its user's to say.
constexpr std::array<std::string_view, 5> kNoConstants{"schema", "name", "origin", "origins",
                                                       "price_per_gpu_hour"};

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
  for (const std::string& path : object.unread()) {
    JsonObject entry = object.object(path);
    origins.emplace(path, format::read(entry, format::kOrigin));
  }
  return origins;
}

Json to_json(const Origins& origins) {
  Json json = Json::object();
  for (const auto& [path, origin] : origins) json[path] = format::written(origin, format::kOrigin);
  return json;
}

const Origin* origin_of(const Origins& origins, const std::string& path) {
  // The nearest object around the constant that has one.
  for (std::string at = path;;) {
    if (const auto found = origins.find(at); found != origins.end()) return &found->second;
    const auto dot = at.rfind('.');
    if (dot == std::string::npos) return nullptr;
    at.resize(dot);
  }
}

void replace_origin(Origins& origins, const std::string& path, std::string source) {
  // One origin for the whole object: what stood for parts of it goes.
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

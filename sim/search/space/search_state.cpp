// The state of a search as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/search_state.hpp"

#include <limits>

#include "plan/text/strict_json.hpp"

namespace weir {
namespace {

constexpr std::int64_t kMostNodes = std::numeric_limits<std::uint32_t>::max();

RefinedNode refined_node(JsonObject object, std::int64_t last) {
  RefinedNode one;
  one.node = static_cast<std::uint32_t>(object.integer("node", 0, last));
  one.slots = static_cast<int>(object.integer("slots", 0, 1 << 30));
  for (const std::int64_t boundary : object.integers("boundaries", 0, 1 << 30))
    one.boundaries.push_back(static_cast<int>(boundary));
  object.finish();
  return one;
}

}  // namespace

Json to_json(const SearchState& state) {
  Json best = Json::array();
  for (const RefinedNode& one : state.best)
    best.push_back({{"node", one.node}, {"slots", one.slots}, {"boundaries", one.boundaries}});
  Json nearest;
  if (state.nearest)
    nearest = {{"node", state.nearest->first}, {"bytes", state.nearest->second.count()}};
  Json json{{"candidates", state.candidates},
            {"next", state.next},
            {"passed", state.passed},
            {"best", best},
            {"waiting", state.waiting},
            {"schedule", {{"count", state.schedule.count}, {"nearest", state.schedule.nearest}}},
            {"memory", state.memory.count},
            {"nearest", nearest},
            {"looked_at", state.looked_at},
            {"simulated", state.simulated},
            {"refined", state.refined},
            {"feasible", state.feasible}};
  // Of searches whose plans keep something with hosts.
  if (state.host.count > 0)
    json["host"] = {{"count", state.host.count}, {"nearest", state.host.nearest}};
  return json;
}

SearchState parse_search_state(const Json& json, const std::string& file) {
  JsonObject object(json, file, "search");
  SearchState state;
  const std::int64_t candidates = object.integer("candidates", 1, kMostNodes),
                     last = candidates - 1;
  state.candidates = static_cast<std::uint64_t>(candidates);
  state.next = static_cast<std::uint64_t>(object.integer("next", 0, candidates));
  state.passed = object.integer("passed", 0, candidates);
  for (JsonObject& one : object.objects("best")) state.best.push_back(refined_node(one, last));
  for (const std::int64_t node : object.integers("waiting", 0, last))
    state.waiting.push_back(static_cast<std::uint32_t>(node));
  JsonObject schedule = object.object("schedule");
  state.schedule.count = schedule.integer("count", 0, candidates);
  state.schedule.nearest = schedule.text("nearest");
  schedule.finish();
  state.memory.count = object.integer("memory", 0, candidates);
  if (!object.is_null("nearest")) {
    JsonObject nearest = object.object("nearest");
    state.nearest = {static_cast<std::uint32_t>(nearest.integer("node", 0, last)),
                     Bytes(nearest.integer("bytes", 0, std::int64_t{1} << 60))};
    nearest.finish();
  } else {
    // The key may be null, but it must be there.
    static_cast<void>(object.at("nearest"));
  }
  state.looked_at = object.integer("looked_at", 0, candidates);
  state.simulated = object.integer("simulated", 0, std::int64_t{1} << 60);
  state.refined = static_cast<int>(object.integer("refined", 0, candidates));
  state.feasible = static_cast<int>(object.integer("feasible", 0, candidates));
  if (object.has("host")) {
    JsonObject host = object.object("host");
    state.host.count = host.integer("count", 1, candidates);
    state.host.nearest = host.text("nearest");
    host.finish();
  }
  object.finish();
  return state;
}

}  // namespace weir

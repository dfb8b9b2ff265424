// The sets over kinds of layers.
// SPDX-License-Identifier: Apache-2.0
#include "sim/recompute/front.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weir {
namespace {

// How many of the last kind were taken, and on top of which point of the front before.
struct Point {
  std::int64_t time_ns = 0, saved_bytes = 0;
  std::size_t before = 0;
  int taken = 0;
};

// Less time first; of equal times what saves more.
bool ahead(const Point& a, const Point& b) {
  return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.saved_bytes > b.saved_bytes;
}

std::vector<Point> undominated(std::vector<Point> points) {
  std::ranges::stable_sort(points, ahead);
  std::vector<Point> front;
  for (const Point& point : points) {
    if (front.empty() || point.saved_bytes > front.back().saved_bytes) front.push_back(point);
  }
  return front;
}

std::vector<Point> thinned(const std::vector<Point>& front, std::size_t most) {
  std::vector<Point> kept;
  for (std::size_t i = 0; i + 1 < most; ++i)
    kept.push_back(front[i * (front.size() - 1) / (most - 1)]);
  kept.push_back(front.back());  // what saves the most stays
  return kept;
}

}  // namespace

RebuildChoices rebuild_choices(std::span<const RebuildItem> items, std::size_t most) {
  // Equal layers count as so many of a kind (docs/theory.md 4.3).
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> kinds;
  for (const RebuildItem& item : items) {
    if (item.saved_bytes > 0) kinds[{item.time_ns, item.saved_bytes}].push_back(item.layer);
  }
  std::size_t sets = 1;
  // Held at one above the limit, so that the product stays small.
  for (const auto& [kind, alike] : kinds) sets = std::min(most + 1, sets * (alike.size() + 1));
  RebuildChoices result;
  result.exact = sets <= most;
  std::vector<std::vector<Point>> fronts{{Point()}};
  std::vector<const std::vector<int>*> layers;
  for (auto& [kind, alike] : kinds) {
    // The first layers of a kind are rebuilt, as Megatron's method `block` does.
    std::ranges::sort(alike);
    std::vector<Point> points;
    const std::vector<Point>& before = fronts.back();
    for (std::size_t p = 0; p < before.size(); ++p) {
      for (int taken = 0; taken <= static_cast<int>(alike.size()); ++taken) {
        points.push_back({before[p].time_ns + taken * kind.first,
                          before[p].saved_bytes + taken * kind.second, p, taken});
      }
    }
    std::vector<Point> front = std::move(points);
    // Few sets are all kept, for a rank's peak is more than a sum of bytes.
    if (!result.exact) front = undominated(std::move(front));
    if (front.size() > most) front = thinned(front, most);
    fronts.push_back(std::move(front));
    layers.push_back(&alike);
  }
  for (std::size_t p = 0; p < fronts.back().size(); ++p) {
    RebuildChoice choice{fronts.back()[p].time_ns, fronts.back()[p].saved_bytes, {}};
    // Down through the fronts: each point knows which one of the front before it stands on.
    for (std::size_t kind = layers.size(), at = p; kind > 0; --kind) {
      const Point& point = fronts[kind][at];
      choice.layers.insert(choice.layers.end(), layers[kind - 1]->begin(),
                           layers[kind - 1]->begin() + point.taken);
      at = point.before;
    }
    std::ranges::sort(choice.layers);
    result.choices.push_back(std::move(choice));
  }
  std::ranges::stable_sort(result.choices, [](const RebuildChoice& a, const RebuildChoice& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.saved_bytes > b.saved_bytes;
  });
  return result;
}

}  // namespace weir

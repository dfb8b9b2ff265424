// Stashes by the stages that make and take them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/direct_skips.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "plan/model/cnn/stashes.hpp"

namespace weir {
namespace {

std::int32_t stage_of(int layer, const std::vector<int>& boundaries) {
  // A boundary is the first layer of its stage.
  return static_cast<std::int32_t>(
      std::distance(boundaries.begin(), std::ranges::upper_bound(boundaries, layer)));
}

struct StagedStash {
  std::int32_t from, to;  // stages
  std::int64_t numbers;
};

// By descending maker, as rows have them.
std::vector<StagedStash> staged(const Model& model, const std::vector<int>& boundaries) {
  std::vector<StagedStash> all;
  for (auto stash = model.stashes.rbegin(); stash != model.stashes.rend(); ++stash)
    all.push_back(
        {stage_of(stash->from, boundaries), stage_of(stash->to, boundaries), stash->numbers});
  return all;
}

// Numbers of a sample's map at a boundary, without what is stashed behind it.
std::int64_t map_before(const Model& model, int boundary) {
  if (boundary == 0) return 0;
  const auto& cell =
      std::get<CellShape>(model.layers[static_cast<std::size_t>(boundary) - 1].shape);
  std::int64_t numbers = cell.map(cell.output()).numbers();
  for (const Stash& stash : model.stashes) {
    // It crosses the boundary where it was made before it and is taken behind it.
    if (stash.from < boundary && boundary <= stash.to) numbers -= stash.numbers;
  }
  return numbers;
}

// One message for all that goes to one stage.
void add(std::vector<StageSkip>& skips, std::int32_t other, std::int64_t bytes) {
  // What goes to one stage stands together, in the order of rows.
  if (skips.empty() || skips.back().other != Stage{other}) skips.push_back({Stage{other}, 0});
  skips.back().bytes += bytes;
}

}  // namespace

std::optional<Misfit> cannot_go_directly(const Model& model, const Plan& plan,
                                         const ScheduleShape& shape) {
  if (!goes_directly(plan)) return std::nullopt;
  if (model.stashes.empty()) {
    return Misfit{"skips",
                  "direct: expected a model whose layers make and take skips (a unet of blocks)"};
  }
  std::vector<Rank> ranks = shape.rank_of_stage.values();
  std::ranges::sort(ranks);
  if (shape.total_stages() != shape.ranks || std::ranges::adjacent_find(ranks) != ranks.end())
    return Misfit{"skips", "direct: expected one stage a rank (vpp 1, in one direction)"};
  std::vector<int> ends{0};
  ends.insert(ends.end(), plan.boundaries.begin(), plan.boundaries.end());
  ends.push_back(static_cast<int>(model.layers.size()));
  if (std::ranges::adjacent_find(ends) != ends.end())
    return Misfit{"skips", "direct: expected no stage without layers"};
  return std::nullopt;
}

std::vector<SkipRoute> skip_routes(const Model& model, const std::vector<int>& boundaries) {
  std::vector<SkipRoute> routes;
  for (const StagedStash& stash : staged(model, boundaries)) {
    const SkipRoute route{Stage{stash.from}, Stage{stash.to}};
    if (stash.to > stash.from + 1 && std::ranges::find(routes, route) == routes.end())
      routes.push_back(route);
  }
  std::ranges::sort(routes, {}, [](const SkipRoute& r) { return std::pair(r.from, r.to); });
  return routes;
}

Model staged_model(const Model& model, const std::vector<int>& boundaries) {
  const std::vector<StagedStash> stashes = staged(model, boundaries);
  Model made = model;
  for (int l = 0; l < static_cast<int>(made.layers.size()); ++l) {
    auto* cell = std::get_if<CellShape>(&made.layers[static_cast<std::size_t>(l)].shape);
    if (cell == nullptr) continue;
    const std::int32_t stage = stage_of(l, boundaries);
    std::int64_t past = 0;
    for (const StagedStash& stash : stashes) {
      // Past this stage: made before it, and taken behind it.
      if (stash.from < stage && stage < stash.to) past += stash.numbers;
    }
    *cell = cnn::without_tail(std::move(*cell), past);
  }
  return made;
}

void put_rows(const Model& model, const Plan& plan, std::vector<StagePart>& stages) {
  const std::vector<StagedStash> stashes = staged(model, plan.boundaries);
  const std::int64_t element = bytes_per_element(plan.dtype);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StagePart& stage = stages[s];
    const auto here = static_cast<std::int32_t>(s);
    const bool last = s + 1 == stages.size();
    stage.input_bytes = map_before(model, stage.layers.first) * element;
    stage.output_bytes = last ? stage.output_bytes : map_before(model, stage.layers.last) * element;
    for (const StagedStash& stash : stashes) {
      const std::int64_t bytes = stash.numbers * element;
      if (stash.to == here && stash.from < here) {
        stage.input_bytes += bytes;
        // A neighbour's comes within the row, any other in a message of its own.
        if (stash.from + 1 < here) add(stage.skips_in, stash.from, bytes);
      }
      if (stash.from == here && stash.to > here) {
        stage.output_bytes += bytes;
        if (stash.to > here + 1) add(stage.skips_out, stash.to, bytes);
      }
    }
  }
}

}  // namespace weir

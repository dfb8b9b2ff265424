// Pursues the best plans of the whole space, then what else was asked.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/best_first.hpp"

#include <algorithm>
#include <limits>

#include "sim/parallel.hpp"
#include "sim/search/further.hpp"
#include "sim/search/walk.hpp"

namespace weir {
namespace {

Goal whole_goal(const SweepRequest& request, const Cluster& cluster) {
  Goal goal{.keep = *request.keep, .effort = request.effort, .whole = true};
  // Of several kinds of nodes many seem fast whose fast ranks' memory then holds less.
  constexpr int kMore = 8;
  if (cluster.kinds() > 1) goal.effort *= kMore;
  // The questions that follow are for the rest of the time.
  constexpr double kFirst = 0.6;
  const bool more = !request.families.empty() || request.front;
  if (request.budget) goal.until = (more ? kFirst : 1) * request.budget->count();
  return goal;
}

// The best of all that was refined.
void take_best(const SearchGround& ground, const Answer& answer, SweepResult& result) {
  std::vector<Found> best;
  for (const auto& [node, outcome] : ground.refiner.outcomes()) {
    if (auto cut = best_cut(outcome, {})) best.push_back({node, std::move(*cut)});
  }
  // Outcomes come by their nodes, so that where all is equal the first of the request's goes first.
  std::ranges::stable_sort(
      best, [](const Found& a, const Found& b) { return goes_before(a.cut, b.cut); });
  const auto keep = static_cast<std::size_t>(*ground.request.keep);
  best.resize(std::min(best.size(), keep));
  // Of the best all is said that a ranking says.
  result.plans.resize(best.size());
  const auto& known = ground.request.known_software;
  SoftwareSteps software(ground.known.model(), ground.cluster, known);
  in_parallel(best.size(), [&](std::size_t i) {
    result.plans[i] =
        ground.refiner.ranked(best[i].node, best[i].cut, known.empty() ? nullptr : &software);
  });
  // What surely fits is ranked first. A plan that is faster and may fit is told beside it.
  if (!best.empty() && best.front().cut.fits == Fits::yes) {
    Found fastest = best.front();
    for (const auto& [node, outcome] : ground.refiner.outcomes()) {
      for (const Cut& cut : outcome.cuts)
        if (cut.step < fastest.cut.step) fastest = {node, cut};
    }
    if (fastest.cut.fits == Fits::maybe)
      result.faster_if_it_fits = ground.refiner.ranked(fastest.node, fastest.cut);
  }
  // Other questions may have refined better plans: the gap is that of what is told.
  Answer of_all = answer;
  of_all.best = std::move(best);
  result.gap = of_all.gap();
  const bool unsure = !of_all.best.empty() && of_all.best.front().cut.fits != Fits::yes;
  result.surer_open = unsure && answer.open_ns != std::numeric_limits<double>::max();
}

}  // namespace

SweepResult best_first(const SweepRequest& request, const Nodes& nodes, const SplitCosts& known,
                       const Cluster& cluster) {
  Refiner refiner(request, nodes, known, cluster);
  SearchGround ground(request, nodes, known, cluster, refiner);
  // A signal may have ended the listing, and left nothing to walk. It is not asked for again: what
  // one process hears alone would end its exchanges before the others'.
  ground.stopped = nodes.stopped;
  const Goal goal = whole_goal(request, cluster);
  Walk walk(ground, goal);
  // A signal that ends the listing leaves nodes that the earlier search did not number so.
  if (request.resume && nodes.whole) walk.restore(*request.resume);
  walk.run();
  SweepResult result;
  result.candidates = static_cast<int>(nodes.all.size());
  result.effort.emplace();
  walk.count(result);
  Answer answer = walk.answer();
  // Without a plan there is nothing to hold other values against.
  const bool found = !answer.best.empty() && !ground.stopped;
  if (found) ask_further(ground, goal, answer, result);
  if (ground.stopped) result.stopped_after = result.effort->looked_at;
  take_best(ground, answer, result);
  result.listed = nodes.whole;
  // Of what was not listed nothing is known, nor of what a search without a plan did not come to.
  if (!nodes.whole || (result.plans.empty() && (ground.stopped || ground.out_of_time)))
    result.gap = std::numeric_limits<double>::infinity();
  for (const LeftOut& left_out : {nodes.devices, nodes.divisibility, nodes.software}) {
    if (left_out.count > 0) result.left_out.push_back(left_out);
  }
  // Some schedules cannot be whatever else is looked at; they are counted with the others.
  LeftOut of_schedules = nodes.schedule;
  std::erase_if(answer.left_out, [&](const LeftOut& left_out) {
    if (left_out.reason != of_schedules.reason) return false;
    of_schedules.count += left_out.count;
    of_schedules.nearest = left_out.nearest;
    return true;
  });
  if (of_schedules.count > 0) result.left_out.push_back(std::move(of_schedules));
  result.left_out.insert(result.left_out.end(), answer.left_out.begin(), answer.left_out.end());
  rank(result.plans);
  return result;
}

}  // namespace weir

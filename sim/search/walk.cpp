// Walks candidates in the order of their estimates, passes over those whose bounds say that they
// are not wanted, and forecasts the best of each block.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/walk.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::size_t kBlock = 1024;  // candidates looked at together
constexpr std::size_t kBatch = 8;     // and forecast together: each of them by the same limit
constexpr double kNever = std::numeric_limits<double>::max();
constexpr std::uint32_t kDone = std::numeric_limits<std::uint32_t>::max();

// Where all is equal the first of the request's order.
bool before(const Found& a, const Found& b) {
  if (goes_before(a.cut, b.cut)) return true;
  return !goes_before(b.cut, a.cut) && a.node < b.node;
}

void sort(std::vector<Examined>& candidates) {
  std::ranges::stable_sort(candidates, [](const Examined& a, const Examined& b) {
    return std::tie(a.estimate_ns, a.node) < std::tie(b.estimate_ns, b.node);
  });
}

[[noreturn]] void throw_another_space() {
  throw InputError("resume", "search", "its candidates are not those of this search");
}

}  // namespace

std::optional<Cut> best_cut(const Outcome& outcome, std::optional<Bytes> memory) {
  if (!memory) return outcome.cuts.empty() ? std::nullopt : std::optional(outcome.cuts.front());
  std::optional<Cut> best;
  for (Cut cut : outcome.cuts) {
    if (cut.peak > *memory) continue;
    // This goal's limit is the only one: what keeps to it fits.
    cut.fits = Fits::yes;
    if (!best || goes_before(cut, *best)) best = std::move(cut);
  }
  return best;
}

SearchGround::SearchGround(const SweepRequest& its_request, const Nodes& its_nodes,
                           const SplitCosts& costs, const Cluster& its_cluster,
                           Refiner& its_refiner)
    : request(its_request),
      nodes(its_nodes),
      known(costs),
      cluster(its_cluster),
      refiner(its_refiner),
      order(its_nodes.groups.size()) {
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::stable_sort(order, {},
                           [this](std::uint32_t g) { return nodes.groups[g].estimate_ns; });
}

double SearchGround::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - nodes.begin).count();
}

Walk::Walk(SearchGround& ground, const Goal& goal) : ground_(ground), goal_(goal) { choose(); }

// Which nodes are wanted, and the least bound of the groups from each place of the order on.
void Walk::choose() {
  const Nodes& nodes = ground_.nodes;
  std::vector<double> bounds(nodes.groups.size(), kNever);
  if (!goal_.wants) {
    for (std::size_t g = 0; g < bounds.size(); ++g) bounds[g] = nodes.groups[g].bound_ns;
    any_ = !nodes.all.empty();
  } else {
    wanted_.assign(nodes.all.size(), false);
    Plan plan;
    std::optional<std::uint32_t> job;
    for (std::size_t g = 0; g < bounds.size(); ++g) {
      const NodeGroup& group = nodes.groups[g];
      for (std::uint32_t n = group.first; n < group.first + group.count; ++n) {
        const Node& node = nodes.all[n];
        // Nodes of a job follow each other, and its plan is copied once.
        if (job != node.job) plan = nodes.jobs[*(job = node.job)];
        plan.pp = node.ranks;
        plan.schedule = ground_.request.schedules[node.schedule];
        if (!goal_.wants(plan)) continue;
        wanted_[n] = any_ = true;
        bounds[g] = std::min(bounds[g], node.bound_ns);
      }
    }
  }
  const auto& order = ground_.order;
  // From the back: what no group from a place on can beat, so the walk knows when to end.
  least_.assign(order.size() + 1, kNever);
  for (std::size_t at = order.size(); at-- > 0;)
    least_[at] = std::min(bounds[order[at]], least_[at + 1]);
}

void Walk::run() {
  const Nodes& nodes = ground_.nodes;
  const auto& order = ground_.order;
  if (!goal_.whole) begin_with_what_is_known();
  while (least_[next_] <= worth_ns() && next_ < order.size() && !spent()) {
    std::vector<std::uint32_t> block;
    for (; next_ < order.size() && block.size() < kBlock; ++next_) {
      const NodeGroup& group = nodes.groups[order[next_]];
      passed_ += group.count;
      add_possible(group, block);
    }
    look_at(block);
    report();
    checkpoint();
  }
  // What was put off may yet be better than it seemed.
  sort(waiting_);
  forecast_best(waiting_, Depth::all);
}

// Other goals may have refined candidates that this one wants; some were too slow for them.
void Walk::begin_with_what_is_known() {
  std::vector<std::pair<Seconds, std::uint32_t>> slow;
  for (const auto& [node, outcome] : ground_.refiner.outcomes()) {
    if (!wanted(node)) continue;
    if (outcome.too_slow) slow.emplace_back(*outcome.too_slow, node);
    enter(node);
  }
  std::ranges::sort(slow);
  for (std::size_t at = 0; at < slow.size();) {
    std::vector<std::uint32_t> batch;
    for (; at < slow.size() && batch.size() < kBatch; ++at) {
      if (slow[at].first.count() * 1e9 > limit_ns()) break;
      batch.push_back(slow[at].second);
    }
    if (batch.empty() || spent()) return;
    ground_.refiner.refine(batch, limit(), {}, [this] { return over(); });
    if (over()) static_cast<void>(spent());
    for (const std::uint32_t node : batch) enter(node);
  }
}

// Those that may be as good as what is wanted.
void Walk::add_possible(const NodeGroup& group, std::vector<std::uint32_t>& block) {
  const double worth = worth_ns();
  for (std::uint32_t n = group.first; n < group.first + group.count; ++n) {
    if (!wanted(n) || (!goal_.whole && ground_.refiner.knows(n, goal_.memory))) continue;
    if (bound(n) <= worth) {
      block.push_back(n);
    } else {
      // The gap is held against the best of what was passed over.
      passed_over_ns_ = std::min(passed_over_ns_, bound(n));
    }
  }
}

// Whether what is under way is to end as well, as soon as it can: asked by many threads. Processes
// that search together end between batches alone, all at the same.
bool Walk::over() const {
  const SweepRequest& request = ground_.request;
  if (request.party) return false;
  return (request.stop && request.stop()) || (goal_.until && ground_.seconds() >= *goal_.until);
}

// Without a budget the effort ends a search that has found a plan that surely fits; one that has
// not looks on: without a plan to the end, with one that may fit for some times the effort.
bool Walk::spent() {
  const SweepRequest& request = ground_.request;
  if (request.stop) ground_.stopped = ground_.stopped || agreed(request.stop());
  if (ground_.stopped) return true;
  if (goal_.until) {
    const bool over = agreed(ground_.seconds() >= *goal_.until);
    if (goal_.whole) ground_.out_of_time = ground_.out_of_time || over;
    return over;
  }
  // Of a part of the space that holds nothing for long, no more is asked.
  constexpr int kInVain = 8;
  constexpr int kTooLarge = 32;
  const bool in_vain = refined_ >= kInVain * goal_.effort || too_large_ >= kTooLarge * goal_.effort;
  if (!goal_.whole && in_vain) return true;
  if (best_.empty() || refined_ < goal_.effort) return false;
  // People take no plan that only may fit, so one is worth more than a smaller gap. Parts of the
  // space, and searches whose effort is small on purpose, answer with what they have.
  constexpr int kUnsure = 8;
  const bool looks_on = goal_.whole && best_.front().cut.fits != Fits::yes;
  return !looks_on || refined_ >= kUnsure * goal_.effort;
}

// Clocks differ, and signals come when they come: of several processes the first one's answer
// counts.
bool Walk::agreed(bool mine) const {
  const auto& party = ground_.request.party;
  return party ? party->exchange(mine ? "yes" : "no").front() == "yes" : mine;
}

// The step that a candidate must not exceed to be among the best: unlimited until all that are
// wanted surely fit, for what surely fits goes first.
std::optional<Seconds> Walk::limit() const {
  if (std::ssize(best_) < goal_.keep || best_.back().cut.fits != Fits::yes) return std::nullopt;
  return best_.back().cut.step;
}

double Walk::limit_ns() const {
  const auto step = limit();
  return step ? step->count() * 1e9 : kNever;
}

// Leaves out what cannot be, forecasts what seems good enough, puts the rest off.
void Walk::look_at(std::span<const std::uint32_t> block) {
  std::vector<Examined> possible;
  const std::size_t before = ground_.refiner.examined();
  for (Examined& one : ground_.refiner.examine(block)) {
    const bool too_large = goal_.memory && one.memory > *goal_.memory;
    if (one.verdict == Examined::Verdict::schedule) {
      miss_schedule(one.reason);
    } else if (one.verdict == Examined::Verdict::memory || too_large) {
      miss(one);
    } else {
      possible.push_back(std::move(one));
    }
  }
  // Each candidate is counted once, for whatever goal.
  looked_at_ += static_cast<std::int64_t>(ground_.refiner.examined() - before);
  sort(possible);
  forecast_best(possible, Depth::estimates);
  std::ranges::move(possible, std::back_inserter(waiting_));
}

// The candidates, best estimate first; what was not come to stays.
void Walk::forecast_best(std::vector<Examined>& candidates, Depth depth) {
  std::size_t at = 0;
  while (at < candidates.size() && !spent()) {
    std::vector<std::uint32_t> batch;
    for (; at < candidates.size() && batch.size() < kBatch; ++at) {
      Examined& one = candidates[at];
      if (depth == Depth::estimates && one.estimate_ns > limit_ns()) break;
      if (bound(one.node) <= worth_ns()) {
        batch.push_back(one.node);
      } else {
        passed_over_ns_ = std::min(passed_over_ns_, bound(one.node));
      }
      one.node = kDone;
    }
    if (batch.empty()) break;
    refine(batch);
    if (depth != Depth::all) continue;
    report();
    checkpoint();
  }
  std::erase_if(candidates, [](const Examined& one) { return one.node == kDone; });
}

void Walk::refine(std::span<const std::uint32_t> batch) {
  // What an earlier goal's end cut short has been counted as refined.
  std::vector<bool> counted;
  const auto& outcomes = ground_.refiner.outcomes();
  for (const std::uint32_t node : batch) {
    const auto its = outcomes.find(node);
    counted.push_back(its != outcomes.end() && its->second.cut_short && !its->second.even_peak);
  }
  ground_.refiner.refine(batch, limit(), goal_.memory, [this] { return over(); });
  // The last batch too is held to the clock and the signal that may have cut it short.
  if (over()) static_cast<void>(spent());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Outcome& outcome = ground_.refiner.of(batch[i]);
    if (!counted[i]) (outcome.even_peak ? too_large_ : refined_) += 1;
    take(batch[i]);
    // With more time it might have been as fast as its bound.
    if (outcome.cut_short) passed_over_ns_ = std::min(passed_over_ns_, bound(batch[i]));
  }
}

void Walk::take(std::uint32_t node) {
  const Outcome& outcome = ground_.refiner.of(node);
  timed_seconds_ += outcome.seconds;
  if (!outcome.reason.empty()) return miss_schedule(outcome.reason);
  // The forecast itself is one more than what refining simulated.
  simulated_ += outcome.simulated + 1;
  timed_ += outcome.seconds > 0 ? outcome.simulated + 1 : 0;
  if (outcome.too_slow) return;
  if (outcome.cuts.empty() && outcome.host) return miss_host(node, *outcome.host);
  if (outcome.cuts.empty()) return miss_memory(node, outcome.needed);
  feasible_ += outcome.even_peak ? 0 : 1;  // counted when it is refined
  enter(node);
}

void Walk::enter(std::uint32_t node) {
  auto cut = best_cut(ground_.refiner.of(node), goal_.memory);
  if (!cut) return;
  Found found{node, std::move(*cut)};
  best_.insert(std::ranges::upper_bound(best_, found, before), std::move(found));
  if (std::ssize(best_) > goal_.keep) best_.pop_back();
}

void Walk::miss_schedule(const std::string& reason) {
  ++schedule_.count;
  if (schedule_.nearest.empty()) schedule_.nearest = reason;
}

// The nearest miss must be of a plan that could be, but for its memory.
void Walk::miss(const Examined& one) {
  const bool nearer = !nearest_ || one.memory < nearest_->second;
  const auto reason =
      one.unshaped && nearer ? ground_.refiner.examiner().no_schedule(one.node) : std::nullopt;
  if (reason) return miss_schedule(*reason);
  miss_memory(one.node, one.memory);
}

void Walk::miss_memory(std::uint32_t node, Bytes needed) {
  ++memory_.count;
  if (!nearest_ || needed < nearest_->second) nearest_ = {node, needed};
}

void Walk::miss_host(std::uint32_t node, const HostHeld& host) {
  const Nodes& nodes = ground_.nodes;
  leave_out(host_, nodes.plan(nodes.all[node], ground_.request), host);
}

void Walk::report() const {
  if (!goal_.whole || !ground_.request.progress) return;
  SearchProgress progress{passed_, std::ssize(ground_.nodes.all), ground_.seconds(), {}};
  if (!best_.empty()) progress.best = best_.front().cut.step;
  progress.front = [this] { return front(); };
  ground_.request.progress(progress);
}

// Of all that was refined, for whatever goal.
std::vector<FrontPoint> Walk::front() const {
  std::vector<std::pair<const Cut*, std::uint32_t>> cuts;
  for (const auto& [node, outcome] : ground_.refiner.outcomes()) {
    for (const Cut& cut : outcome.cuts) cuts.emplace_back(&cut, node);
  }
  std::ranges::stable_sort(cuts, [](const auto& a, const auto& b) {
    return std::tie(a.first->step, a.first->peak) < std::tie(b.first->step, b.first->peak);
  });
  std::vector<FrontPoint> points;
  for (const auto& [cut, node] : cuts) {
    // Slower than the one before: of the front only if it is smaller.
    if (!points.empty() && cut->peak >= points.back().peak) continue;
    Plan plan = ground_.nodes.plan(ground_.nodes.all[node], ground_.request);
    plan.boundaries = cut->boundaries;
    points.push_back({cut->step, cut->peak, summary(plan)});
  }
  return points;
}

void Walk::checkpoint() const {
  // Cut short amid a block it could not go on to what a search without a break finds.
  // Nor do nodes that are some of all have the numbers that they have in a whole listing.
  const bool whole = goal_.whole && ground_.nodes.whole && ground_.request.checkpoint;
  if (!whole || ground_.stopped || ground_.out_of_time || over()) return;
  SearchState state{.candidates = ground_.nodes.all.size(),
                    .next = next_,
                    .passed = passed_,
                    .schedule = schedule_,
                    .memory = memory_,
                    .host = host_,
                    .nearest = nearest_,
                    .looked_at = looked_at_,
                    .simulated = simulated_,
                    .refined = refined_,
                    .feasible = feasible_};
  for (const Found& found : best_) {
    const int slots = ground_.refiner.of(found.node).slots;
    state.best.push_back({found.node, slots, found.cut.boundaries});
  }
  // What is faster and may fit is told beside the best, so it is kept behind them.
  if (const auto fastest = ground_.refiner.fastest_doubtful()) {
    const int slots = ground_.refiner.of(fastest->first).slots;
    state.best.push_back({fastest->first, slots, fastest->second.boundaries});
  }
  for (const Examined& one : waiting_) {
    if (one.node != kDone) state.waiting.push_back(one.node);
  }
  ground_.request.checkpoint(state);
}

void Walk::restore(const SearchState& state) {
  const bool other = state.candidates != ground_.nodes.all.size();
  if (other || state.next > ground_.order.size()) throw_another_space();
  next_ = state.next;
  passed_ = state.passed;
  schedule_ = state.schedule;
  memory_ = state.memory;
  host_ = state.host;
  nearest_ = state.nearest;
  looked_at_ = state.looked_at;
  simulated_ = state.simulated;
  refined_ = state.refined;
  feasible_ = state.feasible;
  for (const RefinedNode& one : state.best) {
    if (!possible(one)) throw_another_space();
    // Of a node that is there already this is another cut.
    const bool known = ground_.refiner.outcomes().contains(one.node);
    ground_.refiner.restore(one.node, one.slots, one.boundaries);
    if (!known) enter(one.node);
  }
  waiting_ = ground_.refiner.examine(state.waiting);
  const auto impossible = [](const Examined& one) {
    return one.verdict != Examined::Verdict::possible;
  };
  if (std::ranges::any_of(waiting_, impossible)) throw_another_space();
}

// Whether the node can be cut so.
bool Walk::possible(const RefinedNode& one) const {
  const Nodes& nodes = ground_.nodes;
  const Plan plan = nodes.plan(nodes.all[one.node], ground_.request);
  const std::vector<int>& cuts = one.boundaries;
  const int layers = staged_layers(ground_.known.of(plan).model());
  return std::ssize(cuts) == plan.stages() - 1 && std::ranges::is_sorted(cuts) &&
         (cuts.empty() || (cuts.front() >= 0 && cuts.back() <= layers));
}

Answer Walk::answer() const {
  // What is open is no better than the least of these: groups not come to, nodes passed over, nodes
  // that wait.
  Answer answer{.best = best_, .open_ns = std::min(least_[next_], passed_over_ns_), .any = any_};
  for (const Examined& one : waiting_) answer.open_ns = std::min(answer.open_ns, bound(one.node));
  LeftOut memory = memory_;
  if (nearest_) {
    const Nodes& nodes = ground_.nodes;
    const Plan plan = nodes.plan(nodes.all[nearest_->first], ground_.request);
    memory.nearest = summary(plan) + " needs at least " + format_bytes(nearest_->second);
  }
  for (const LeftOut& left_out : {schedule_, memory, host_}) {
    if (left_out.count > 0) answer.left_out.push_back(left_out);
  }
  return answer;
}

void Walk::count(SweepResult& result) const {
  result.feasible += feasible_;
  SearchEffort& effort = *result.effort;
  effort.looked_at += looked_at_;
  effort.refined += refined_;
  effort.simulated += simulated_;
  effort.timed += timed_;
  effort.timed_seconds += timed_seconds_;
}

}  // namespace weir

// Walks candidates in the order of their estimates, passes over those whose bounds say that they
// are not wanted, and forecasts the best of each block.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/best_first.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <variant>

#include "plan/job/summary.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "sim/parallel.hpp"
#include "sim/search/examine.hpp"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = 1024;  // candidates looked at together
constexpr std::size_t kBatch = 8;     // and forecast together: each of them by the same limit
constexpr double kNever = std::numeric_limits<double>::max();

// A plan that fits, and the candidate it was made of.
struct Found {
  Ranked ranked;
  std::uint32_t node = 0;
};

// What came of one candidate that was to be refined and forecast, for all processes of the search.
struct Outcome {
  std::string reason;     // of a schedule that cannot be
  bool too_slow = false;  // for the limit
  Bytes needed{0};        // where it does not fit
  int simulated = 0;
  std::optional<Ranked> ranked;  // where it fits, or may
  double seconds = 0;            // that this process took for it
};

// As `rank` would have them; where all is equal the first of the request's order.
bool before(const Found& a, const Found& b) {
  if (goes_before(a.ranked.forecast, b.ranked.forecast)) return true;
  return !goes_before(b.ranked.forecast, a.ranked.forecast) && a.node < b.node;
}

class Search {
 public:
  Search(const SweepRequest& request, const Nodes& nodes, const SplitCosts& known,
         const Cluster& cluster)
      : request_(request),
        nodes_(nodes),
        known_(known),
        cluster_(cluster),
        examiner_(request, nodes, known, cluster),
        begin_(Clock::now()) {
    if (request.resume) restore(*request.resume);
  }

  SweepResult run() && {
    std::vector<NodeGroup> order = nodes_.groups;
    std::ranges::stable_sort(order, {}, &NodeGroup::estimate_ns);
    // The least bound of each group and those behind it.
    std::vector<double> least(order.size() + 1, kNever);
    for (std::size_t g = order.size(); g-- > 0;)
      least[g] = std::min(order[g].bound_ns, least[g + 1]);
    if (next_ > order.size()) throw_another_space();
    while (least[next_] <= limit_ns() && next_ < order.size() && !spent()) {
      std::vector<std::uint32_t> block;
      for (; next_ < order.size() && block.size() < kBlock; ++next_) {
        passed_ += order[next_].count;
        add_possible(order[next_], block);
      }
      look_at(block);
      report(passed_);
      checkpoint();
    }
    // What was put off may yet be better than it seemed.
    sort(waiting_);
    forecast_best(waiting_, Depth::all);
    double open = least[next_];
    for (const Examined& one : waiting_) open = std::min(open, bound(one.node));
    return result(open);
  }

 private:
  // Candidates whose estimate is within the limit, or all.
  enum class Depth : std::uint8_t { estimates, all };

  [[nodiscard]] double bound(std::uint32_t node) const { return nodes_.all[node].bound_ns; }
  // Those that may be as good as what is wanted.
  void add_possible(const NodeGroup& group, std::vector<std::uint32_t>& block) const {
    const double limit = limit_ns();
    for (std::uint32_t n = group.first; n < group.first + group.count; ++n) {
      if (bound(n) <= limit) block.push_back(n);
    }
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  // Without a budget the effort ends a search that has found a plan; one that has not looks on.
  [[nodiscard]] bool spent() {
    if (request_.stop) stopped_ = stopped_ || agreed(request_.stop());
    if (stopped_) return true;
    if (request_.budget) {
      out_of_time_ = out_of_time_ || agreed(seconds() >= request_.budget->count());
      return out_of_time_;
    }
    // Of several kinds of nodes many seem fast whose fast ranks' memory then holds less.
    constexpr int kMore = 8;
    const int effort = cluster_.kinds() > 1 ? kMore * request_.effort : request_.effort;
    return feasible_ > 0 && refined_ >= effort;
  }
  // Clocks differ, and signals come when they come: of several processes the first one's answer
  // counts.
  [[nodiscard]] bool agreed(bool mine) const {
    if (!request_.party) return mine;
    return request_.party->exchange(mine ? "yes" : "no").front() == "yes";
  }
  void report(std::int64_t done) const {
    if (!request_.progress) return;
    SearchProgress progress{done, std::ssize(nodes_.all), seconds(), {}};
    if (!best_.empty()) progress.best = best_.front().ranked.forecast.step_time;
    request_.progress(progress);
  }

  // The step that a candidate must not exceed to be among the best: unlimited until all that are
  // wanted surely fit, for what surely fits goes first.
  [[nodiscard]] std::optional<Seconds> limit() const {
    if (std::ssize(best_) < *request_.keep) return std::nullopt;
    const Forecast& last = best_.back().ranked.forecast;
    if (last.fits() != Fits::yes) return std::nullopt;
    return last.step_time;
  }
  [[nodiscard]] double limit_ns() const {
    const auto step = limit();
    return step ? step->count() * 1e9 : kNever;
  }

  // Leaves out what cannot be, forecasts what seems good enough, puts the rest off.
  void look_at(std::span<const std::uint32_t> block) {
    std::vector<Examined> possible;
    for (Examined& one : examiner_.examine(block)) {
      if (one.verdict == Examined::Verdict::possible) {
        possible.push_back(std::move(one));
      } else if (one.verdict == Examined::Verdict::schedule) {
        miss_schedule(one.reason);
      } else {
        miss(one);
      }
    }
    looked_at_ += std::ssize(block);
    sort(possible);
    forecast_best(possible, Depth::estimates);
    std::ranges::move(possible, std::back_inserter(waiting_));
  }
  static void sort(std::vector<Examined>& candidates) {
    std::ranges::stable_sort(candidates, [](const Examined& a, const Examined& b) {
      return std::tie(a.estimate_ns, a.node) < std::tie(b.estimate_ns, b.node);
    });
  }

  void miss_schedule(const std::string& reason) {
    ++schedule_.count;
    if (schedule_.nearest.empty()) schedule_.nearest = reason;
  }
  // The nearest miss must be of a plan that could be, but for its memory.
  void miss(const Examined& one) {
    const bool nearer = !nearest_ || one.memory < nearest_->second;
    const auto reason = one.unshaped && nearer ? examiner_.no_schedule(one.node) : std::nullopt;
    if (reason) return miss_schedule(*reason);
    miss_memory(one.node, one.memory);
  }
  void miss_memory(std::uint32_t node, Bytes needed) {
    ++memory_.count;
    if (!nearest_ || needed < nearest_->second) nearest_ = {node, needed};
  }

  // The candidates, best estimate first; what was not come to stays.
  void forecast_best(std::vector<Examined>& candidates, Depth depth) {
    std::size_t at = 0;
    while (at < candidates.size() && !spent()) {
      std::vector<Examined*> batch;
      for (; at < candidates.size() && batch.size() < kBatch; ++at) {
        Examined& one = candidates[at];
        if (depth == Depth::estimates && one.estimate_ns > limit_ns()) break;
        if (bound(one.node) <= limit_ns()) {
          batch.push_back(&one);
        } else {
          one.node = kDone;
        }
      }
      if (batch.empty()) break;
      forecast_all(batch);
      if (depth == Depth::all) checkpoint();
    }
    std::erase_if(candidates, [](const Examined& one) { return one.node == kDone; });
  }

  // Of several processes each forecasts its share of the batch, and hears what came of the others'.
  void forecast_all(std::span<Examined* const> batch) {
    std::vector<Outcome> outcomes(batch.size());
    const CandidateLimits limits{.memory = request_.memory_limit, .step = limit()};
    const std::size_t first = request_.party ? static_cast<std::size_t>(request_.party->index) : 0,
                      each = request_.party ? static_cast<std::size_t>(request_.party->count) : 1;
    const std::size_t mine = first < batch.size() ? (batch.size() - first - 1) / each + 1 : 0;
    in_parallel(mine, [&](std::size_t i) {
      const std::size_t place = first + i * each;
      const double begin = seconds();
      outcomes[place] = outcome_of(*batch[place], limits);
      outcomes[place].seconds = seconds() - begin;
    });
    if (request_.party) share(batch, outcomes, first, each);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      ++refined_;
      take(*batch[i], std::move(outcomes[i]));
      batch[i]->node = kDone;
    }
  }

  [[nodiscard]] Outcome outcome_of(const Examined& one, const CandidateLimits& limits) {
    Outcome outcome;
    Plan plan = examiner_.plan(one.node);
    const auto slots = examiner_.shapes().slots(plan, programs_);
    if (const auto* reason = std::get_if<std::string>(&slots)) {
      outcome.reason = *reason;
      return outcome;
    }
    plan.slots = std::get<int>(slots);
    CandidateCost cost = cost_of(plan, sources(), limits);
    outcome.simulated = cost.simulated;
    outcome.too_slow = cost.too_slow;
    outcome.needed = cost.ranked ? cost.ranked->forecast.peak_memory() : cost.held;
    if (cost.ranked && cost.ranked->forecast.may_fit()) outcome.ranked = std::move(*cost.ranked);
    return outcome;
  }

  // Forecasts do not travel: what fits is forecast anew from its boundaries, which gives the same.
  void share(std::span<Examined* const> batch, std::vector<Outcome>& outcomes, std::size_t first,
             std::size_t each) {
    Json own = Json::array();
    for (std::size_t i = first; i < batch.size(); i += each) {
      const Outcome& one = outcomes[i];
      Json json{one.reason, one.too_slow, one.needed.count(), one.simulated};
      if (one.ranked) {
        json.push_back(one.ranked->plan.slots);
        json.push_back(one.ranked->plan.boundaries);
      }
      own.push_back(std::move(json));
    }
    const std::vector<std::string> all = request_.party->exchange(own.dump());
    for (std::size_t p = 0; p < each; ++p) {
      if (p == first) continue;
      const Json theirs = Json::parse(all[p]);
      for (std::size_t i = p; i < batch.size(); i += each) {
        const Json& json = theirs[i / each];
        outcomes[i] = {json[0], json[1], Bytes(json[2].get<std::int64_t>()), json[3], {}};
        if (json.size() > 4)
          outcomes[i].ranked = ranked(batch[i]->node, json[4], json[5].get<std::vector<int>>());
      }
    }
  }

  void take(const Examined& one, Outcome outcome) {
    timed_seconds_ += outcome.seconds;
    if (!outcome.reason.empty()) return miss_schedule(outcome.reason);
    simulated_ += outcome.simulated + 1;
    timed_ += outcome.seconds > 0 ? outcome.simulated + 1 : 0;
    if (outcome.too_slow) return;
    if (!outcome.ranked) return miss_memory(one.node, outcome.needed);
    ++feasible_;
    Found found{std::move(*outcome.ranked), one.node};
    const auto place = std::ranges::upper_bound(best_, found, before);
    best_.insert(place, std::move(found));
    if (std::ssize(best_) > *request_.keep) best_.pop_back();
  }

  [[nodiscard]] CandidateSources sources(ForecastDetail detail = ForecastDetail::order) {
    return {known_, cluster_, programs_, detail};
  }

  // A node's plan as it was refined.
  [[nodiscard]] Ranked ranked(std::uint32_t node, int slots, std::vector<int> boundaries) {
    Plan plan = nodes_.plan(nodes_.all[node], request_);
    plan.slots = slots;
    plan.boundaries = std::move(boundaries);
    return ranked_of(plan, sources(), request_.memory_limit);
  }

  void checkpoint() const {
    // Cut short amid a block it could not go on to what a search without a break finds.
    if (!request_.checkpoint || stopped_ || out_of_time_) return;
    SearchState state{.candidates = nodes_.all.size(),
                      .next = next_,
                      .passed = passed_,
                      .schedule = schedule_,
                      .memory = memory_,
                      .nearest = nearest_,
                      .looked_at = looked_at_,
                      .simulated = simulated_,
                      .refined = refined_,
                      .feasible = feasible_};
    for (const Found& found : best_) {
      const Plan& plan = found.ranked.plan;
      state.best.push_back({found.node, plan.slots, plan.boundaries});
    }
    for (const Examined& one : waiting_) {
      if (one.node != kDone) state.waiting.push_back(one.node);
    }
    request_.checkpoint(state);
  }

  [[noreturn]] static void throw_another_space() {
    throw InputError("resume", "search", "its candidates are not those of this search");
  }
  void restore(const SearchState& state) {
    if (state.candidates != nodes_.all.size()) throw_another_space();
    next_ = state.next;
    passed_ = state.passed;
    schedule_ = state.schedule;
    memory_ = state.memory;
    nearest_ = state.nearest;
    looked_at_ = state.looked_at;
    simulated_ = state.simulated;
    refined_ = state.refined;
    feasible_ = state.feasible;
    for (const RefinedNode& one : state.best) {
      if (!possible(one)) throw_another_space();
      best_.push_back({ranked(one.node, one.slots, one.boundaries), one.node});
    }
    waiting_ = examiner_.examine(state.waiting);
    const auto impossible = [](const Examined& one) {
      return one.verdict != Examined::Verdict::possible;
    };
    if (std::ranges::any_of(waiting_, impossible)) throw_another_space();
  }
  // Whether the node can be cut so.
  [[nodiscard]] bool possible(const RefinedNode& one) const {
    const Plan plan = nodes_.plan(nodes_.all[one.node], request_);
    const std::vector<int>& cuts = one.boundaries;
    const auto layers = static_cast<int>(known_.of(plan).model().layers.size());
    return std::ssize(cuts) == plan.stages() - 1 && std::ranges::is_sorted(cuts) &&
           (cuts.empty() || (cuts.front() >= 0 && cuts.back() <= layers));
  }

  // `open_ns`: the least bound of what was not looked at.
  [[nodiscard]] SweepResult result(double open_ns) {
    SweepResult result;
    result.candidates = static_cast<int>(nodes_.all.size());
    result.feasible = feasible_;
    if (stopped_) result.stopped_after = looked_at_;
    result.effort = {.looked_at = looked_at_,
                     .refined = refined_,
                     .simulated = simulated_,
                     .timed = timed_,
                     .timed_seconds = timed_seconds_};
    if (!best_.empty() && open_ns < kNever) {
      const double best = best_.front().ranked.forecast.step_time.count() * 1e9;
      result.gap = std::max(0.0, best / open_ns - 1);
    }
    if (nearest_) {
      const Plan plan = nodes_.plan(nodes_.all[nearest_->first], request_);
      memory_.nearest = summary(plan) + " needs at least " + format_bytes(nearest_->second);
    }
    for (const LeftOut& left_out : {nodes_.devices, nodes_.divisibility, schedule_, memory_}) {
      if (left_out.count > 0) result.left_out.push_back(left_out);
    }
    // Of the best all is said that a ranking says.
    result.plans.resize(best_.size());
    in_parallel(best_.size(), [&](std::size_t i) {
      result.plans[i] =
          ranked_of(best_[i].ranked.plan, sources(ForecastDetail::ranking), request_.memory_limit);
    });
    return result;
  }

  static constexpr std::uint32_t kDone = std::numeric_limits<std::uint32_t>::max();
  const SweepRequest& request_;
  const Nodes& nodes_;
  const SplitCosts& known_;
  const Cluster& cluster_;
  Examiner examiner_;
  Programs programs_;
  Clock::time_point begin_;
  std::vector<Found> best_;        // best first, as many as are wanted
  std::vector<Examined> waiting_;  // estimated to be slower than what was found
  LeftOut schedule_{"schedule"}, memory_{"memory"};
  std::optional<std::pair<std::uint32_t, Bytes>> nearest_;  // of those that do not fit
  bool stopped_ = false, out_of_time_ = false;
  std::size_t next_ = 0;     // group that was not looked at
  std::int64_t passed_ = 0;  // candidates of those before it
  std::int64_t looked_at_ = 0, simulated_ = 0;
  std::int64_t timed_ = 0;  // steps of this call
  double timed_seconds_ = 0;
  int refined_ = 0, feasible_ = 0;
};

}  // namespace

SweepResult best_first(const SweepRequest& request, const Nodes& nodes, const SplitCosts& known,
                       const Cluster& cluster) {
  SweepResult result = Search(request, nodes, known, cluster).run();
  rank(result.plans);
  return result;
}

}  // namespace weir

// Doubts of a measurement, and the wait for a quiet machine.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "traces/stats.hpp"

namespace weir::app {
namespace {

constexpr double kMinutes = 300;  // to wait where nobody says for how long
constexpr double kQuietCores = 0.1, kQuietShare = 0.01;

}  // namespace

void note_disturbance(const Disturbance& disturbance, const std::string& what,
                      const Session& session) {
  const std::string why = doubt(disturbance);
  if (why.empty()) return;
  session.note(
      fmt::format("the machine was disturbed: {}; {} (--wait-for-quiet waits)", why, what));
}

std::optional<double> typical_spread(const std::vector<std::vector<double>>& times) {
  std::vector<double> spreads;
  for (const std::vector<double>& of_one : times) {
    if (of_one.size() > 2) spreads.push_back(spread_over_fastest_half(of_one));
  }
  if (spreads.empty()) return std::nullopt;
  return median(std::move(spreads));
}

Fields fields(QuietOptions& o) {
  return {{"--wait-for-quiet",
           &o.limit_s,
           "Wait until other work leaves the cores alone, SECONDS at most (300 if not said)",
           {.range = {{0, 1e6}}, .unsaid = kMinutes}}};
}

bool is_quiet(double cores_of_others, int cores) {
  return cores_of_others < std::max(kQuietCores, kQuietShare * cores);
}

void wait_for_quiet(const QuietOptions& options, const Session& session,
                    const std::function<bool()>& stopped) {
  if (!options.limit_s) return;
  const CoreUse begin = core_use();
  const auto limit = static_cast<int>(std::ceil(*options.limit_s));
  double others = 0;
  // At least one look, however short the limit.
  for (CoreUse before = begin; (before.at - begin.at).count() < *options.limit_s || others == 0;) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const CoreUse after = core_use();
    const std::optional<double> found = cores_of_others(before, after);
    const auto waited = static_cast<int>(std::lround((after.at - begin.at).count()));
    if (!found) {
      session.note("this kernel does not say what other work its cores do: nothing to wait for");
      return;
    }
    if (is_quiet(*found, after.cores)) {
      session.progress("waits for a quiet machine", 1, 1);  // wipes the bar
      session.log(fmt::format("the machine was quiet after {} s", waited));
      return;
    }
    if (stopped && stopped()) return;
    // Over the last second alone: earlier work has ended.
    others = *found;
    before = after;
    if (waited < limit) session.progress("waits for a quiet machine", waited, limit);
  }
  session.progress("waits for a quiet machine", 1, 1);
  session.note(
      fmt::format("waited {} s, and other work still keeps {:.1f} of {} cores busy: it is measured "
                  "all the same",
                  limit, others, begin.cores));
}

}  // namespace weir::app

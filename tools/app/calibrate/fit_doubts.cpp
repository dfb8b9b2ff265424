// Factors too far from 1 to be learnt without a word.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/fit_doubts.hpp"

#include <fmt/format.h>

namespace weir::app {
namespace {

// Built-in costs of kernels are off by less on all published runs (weir reproduce), and measured
// ones are nearer.
constexpr double kFarFit = 1.5;

bool is_far(double factor) { return factor > kFarFit || factor < 1 / kFarFit; }

}  // namespace

void doubt_far_fits(const std::vector<FitQuality>& quality, std::string_view question,
                    const Session& session) {
  for (const FitQuality& q : quality) {
    // "F" and "F alone" are times of passes; the optimizer's and the fixed part's factors are no
    // model's.
    const bool pass = q.kind.size() == 1 || (q.kind.size() > 1 && q.kind[1] == ' ');
    if (!pass || !is_far(q.factor)) continue;
    session.note(fmt::format("{} took {:.2f} times what its costs forecast: {}", q.kind, q.factor,
                             question));
    return;
  }
}

void doubt_far_figure(std::string_view figure, double measured_over_forecast,
                      const Session& session) {
  if (!is_far(measured_over_forecast)) return;
  session.note(fmt::format(
      "{} is {:.2f} times what is forecast: is it this plan's, on this cluster, undisturbed?",
      figure, measured_over_forecast));
}

}  // namespace weir::app

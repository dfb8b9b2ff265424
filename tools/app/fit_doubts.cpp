// Factors too far from 1 to be learnt without a word.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/fit_doubts.hpp"

#include <fmt/format.h>

namespace weir::app {
namespace {

// Built-in costs of kernels are off by less on all published runs (weir reproduce), and measured
// ones are nearer.
constexpr double kFarFit = 1.5;

}  // namespace

void doubt_far_fits(const std::vector<FitQuality>& quality, std::string_view question,
                    const Session& session) {
  for (const FitQuality& q : quality) {
    // "F" and "F alone" are times of passes; an optimizer's or a size's factor is no model's.
    const bool pass = q.kind.size() == 1 || (q.kind.size() > 1 && q.kind[1] == ' ');
    if (!pass || q.kind.front() == 'b' || (q.factor <= kFarFit && q.factor >= 1 / kFarFit))
      continue;
    session.note(fmt::format("{} took {:.2f} times what its costs forecast: {}", q.kind, q.factor,
                             question));
    return;
  }
}

}  // namespace weir::app

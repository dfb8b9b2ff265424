// A measurement is watched for what other work took from it, and may wait until there is none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/core_use.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

class Watch {
 public:
  Watch() : before_(core_use()) {}
  [[nodiscard]] Disturbance until_now() const { return disturbance_between(before_, core_use()); }

 private:
  CoreUse before_;
};

// In one line, where there is a doubt: what was measured, and why it says little of `what`.
void note_disturbance(const Disturbance& disturbance, const std::string& what,
                      const Session& session);

// The median over plans of the spread of each one's steps: one bad minute in many is no doubt.
[[nodiscard]] std::optional<double> typical_spread(const std::vector<std::vector<double>>& times);

struct QuietOptions {
  std::optional<double> limit_s;  // to wait at most; nothing: no waiting
};
[[nodiscard]] Fields fields(QuietOptions& options);

// A machine is quiet where others keep less than a tenth of a core busy, or a hundredth of all of
// them where that is more: less than the 2 % of a measurement that counts as stolen, on any core
// it may fall on, and more than what a machine's own services need.
[[nodiscard]] bool is_quiet(double cores_of_others, int cores);
// Waits, a second at a time, says for how long it has, and, where the limit comes first, that it
// was not quiet. `stopped`, where it is set, is asked each second and ends it.
void wait_for_quiet(const QuietOptions& options, const Session& session,
                    const std::function<bool()>& stopped = {});

}  // namespace weir::app

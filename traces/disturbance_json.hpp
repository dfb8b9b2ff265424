// The object `disturbance` of docs/formats.md, key by key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/format/keys.hpp"
#include "traces/disturbance.hpp"

namespace weir::format {

// Follows from the other keys.
struct Doubted {
  static constexpr const char* kType = "boolean";
  static void read(const Spec& key, JsonObject& object, const Disturbance&) {
    static_cast<void>(object.boolean(key.name));
  }
  static Json write(const Spec&, const Disturbance& value) { return !doubt(value).empty(); }
};

inline constexpr Range kCounted{0, 1e12};
inline constexpr Range kScattered{0, 1e9};

inline constexpr Key<Disturbance> kDisturbance[] = {
    key<&Disturbance::watched>(
        "watched_s", "s | always | of the wall clock; 0 where nothing was counted", kCounted),
    key<&Disturbance::worked>(
        "worked_s", "s | always | that the process's threads computed, all together", kCounted),
    key<&Disturbance::stolen>(
        "stolen",
        "share | always | of its cores' time, that a hypervisor gave to other machines; null "
        "where it was not counted",
        kScattered)
        .nullable(),
    key<&Disturbance::preemptions_per_s>(
        "preemptions_per_s",
        "1/s | always | of `worked_s`: how often a thread lost its core while it wanted to "
        "run",
        kCounted),
    key<&Disturbance::spread>(
        "spread",
        "share | always | median distance of repeated times to the median of their fastest "
        "half, over that; null below three",
        kScattered)
        .nullable(),
    key<kWhole, Doubted>("disturbed", "whether this was warned of"),
};

}  // namespace weir::format

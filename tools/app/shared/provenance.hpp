// How a page came about: what was asked for, when, of which Weir.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tools/app/shared/session.hpp"
#include "tools/report/page.hpp"

namespace weir::app {

// Today in UTC, as "2026-11-23"; where the environment has SOURCE_DATE_EPOCH, that day
// (reproducible-builds.org), so that a page can be the same twice.
[[nodiscard]] std::string today();

[[nodiscard]] Provenance provenance(const Session& session, std::uint64_t seed);

}  // namespace weir::app

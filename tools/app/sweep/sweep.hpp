// `sweep`: searches plans, and runs them beside their forecasts where asked to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/app/shared/field.hpp"
#include "tools/app/sweep/sweep_request.hpp"

namespace weir::app {

[[nodiscard]] Fields fields(SweepRequest& request);

// Throws NoFeasiblePlan where no plan is possible or fits; EndedTogether where a search of several
// processes ends before its end.
[[nodiscard]] SweepReply sweep(const SweepRequest& request, const Session& session);
// weir.sweep/1; null where another process has it.
[[nodiscard]] nlohmann::ordered_json to_json(const SweepReply& reply);
// The signal that ended it before its end; 0: none did.
[[nodiscard]] inline int stopped_by(const SweepReply& reply) { return reply.stopped_by; }
// What stands behind the forecasts, for people.
[[nodiscard]] std::string trust(const SweepReply& reply);

inline constexpr UseCase<SweepRequest, SweepReply> kSweep{
    "sweep", "Search K, M, partition, schedule and re-materialisation", &sweep};

}  // namespace weir::app

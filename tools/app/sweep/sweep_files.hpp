// The files of a sweep: pictures, the report, the listed plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "tools/app/shared/session.hpp"
#include "tools/app/sweep/sweep_request.hpp"

namespace weir::app {

// Bubble and memory against M for the largest K that was run with several M.
void draw(const SweepReply& reply, const std::filesystem::path& file, const Session& session);
void draw_front(const SweepReply& reply, const std::filesystem::path& file, const Session& session);
// `trust`: what stands behind the forecasts, for people. A signal meanwhile cuts its explanations
// short, and is the reply's.
void write_report(SweepReply& reply, const SweepRequest& request, const std::string& trust,
                  const Session& session);
// Each listed plan as plan-1.json, plan-2.json, ...
void write_plans(const SweepReply& reply, const std::filesystem::path& folder,
                 const Session& session);
// The reply with plans for files in `folder`.
[[nodiscard]] SweepReply placed_in(SweepReply reply, const std::filesystem::path& folder);

}  // namespace weir::app

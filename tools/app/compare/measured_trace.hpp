// A trace that `weir run` measured, in the words of a job's log: it stands wherever a log does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "plan/job/plan.hpp"
#include "traces/job_log.hpp"

namespace weir::app {

// Whether the text is one JSON value with a trace's events.
[[nodiscard]] bool is_trace(const std::string& text);

// What a log of the plan's job would say of it by the names of kLoggedArguments, but for its
// model's.
[[nodiscard]] std::map<std::string, std::int64_t> logged_arguments(const Plan& plan);

// Its steps, none of which is warm-up, and the layout of its plan, whose model is not looked for.
// Throws InputError for what is no trace of a plan, was predicted, or has times that say nothing
// about its plan.
[[nodiscard]] JobLogSummary summary_of_trace(const std::filesystem::path& file);

}  // namespace weir::app

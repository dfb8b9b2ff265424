// A trace that `weir run` measured, in the words of a job's log: it stands wherever a log does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "traces/job_log.hpp"

namespace weir::app {

// Whether the text is one JSON value with a trace's events.
[[nodiscard]] bool is_trace(const std::string& text);

// Its steps, none of which is warm-up, and its plan, whose model is not looked for. Throws
// InputError for what is no trace of a plan, was predicted, or has times that say nothing about its
// plan.
[[nodiscard]] JobLogSummary summary_of_trace(const std::string& text, const std::string& file);

}  // namespace weir::app

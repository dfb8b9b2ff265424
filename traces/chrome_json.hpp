// Traces as Chrome-trace JSON: any viewer opens them, and reading one of ours gives the same Trace again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "traces/trace.hpp"

namespace weir {

// Spans are complete events ("X", ts and dur in microseconds with nanosecond digits); process = rank, thread = lane.
// `args` carry the exact integers, so that nothing is lost to decimals.
[[nodiscard]] std::string to_chrome_json(const Trace& trace);

// Reads what to_chrome_json wrote. Throws InputError for anything else.
[[nodiscard]] Trace parse_chrome_json(const std::string& text, const std::string& file);

[[nodiscard]] Trace load_trace(const std::filesystem::path& file);
void save_trace(const Trace& trace, const std::filesystem::path& file);

}  // namespace weir

// Traces as Chrome-trace JSON: any viewer opens them, and reading one of ours gives the same Trace
// again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "traces/kernels.hpp"
#include "traces/trace.hpp"

namespace weir {

// Spans are complete events ("X", ts and dur in microseconds with nanosecond digits); process =
// rank, thread = lane. `args` carry the exact integers, so that nothing is lost to decimals.
// Kernels of the trace's actions, where given, have a row below the lane of theirs.
[[nodiscard]] std::string to_chrome_json(const Trace& trace,
                                         std::span<const KernelSpan> kernels = {});

// Reads what to_chrome_json wrote, but for kernels. Throws InputError for anything else.
[[nodiscard]] Trace parse_chrome_json(const std::string& text, const std::string& file);

[[nodiscard]] Trace load_trace(const std::filesystem::path& file);
void save_trace(const Trace& trace, const std::filesystem::path& file);

}  // namespace weir

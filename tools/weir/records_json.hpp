// What the commands print with --json, for those who call them as functions: weir.model/1,
// weir.run/1 and weir.comparison/1. Each is made beside its command.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "exec/run/run.hpp"
#include "plan/model/model.hpp"
#include "plan/words/dtype.hpp"
#include "traces/compare.hpp"

namespace weir {

[[nodiscard]] std::string to_json(const Model& model, std::int64_t seq_length, Dtype dtype);
[[nodiscard]] std::string to_json(const RunResult& result, const std::string& backend);
[[nodiscard]] std::string to_json(const Comparison& comparison);

// Writes into the measured trace's info where it was made: machine, version, backend, seed.
void label(RunResult& result, const ResolvedPlan& loaded, const std::string& backend);

}  // namespace weir

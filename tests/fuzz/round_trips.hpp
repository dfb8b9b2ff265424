// What a command does with what a reader accepted: lowering, proof, costs, forecast, export and
// back. A round trip that brings back something else throws std::logic_error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir::fuzz {

// Throws std::logic_error(`what`) unless `holds`.
void require(bool holds, const std::string& what);

// Writes the input into a folder of this process's own.
std::filesystem::path as_file(const std::string& name, const std::string& bytes);

// A GPT-2 of three blocks, kept in that folder, and a plan of it: K = 2, M = 4.
[[nodiscard]] const Plan& tiny_plan();
[[nodiscard]] const Cluster& known_cluster();

// Whether a program of the plan is small enough to be made thousands of times a second.
[[nodiscard]] bool is_small(const Plan& plan);

void carry_on(const ResolvedPlan& resolved, const Cluster& cluster);
// What an importer read, by way of the model file that it would write.
void carry_on(const Job& job);
// A model of any file: two stages, four micro-batches.
void carry_on_model(const std::filesystem::path& file);

}  // namespace weir::fuzz

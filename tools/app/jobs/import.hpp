// `plan` from another tool's job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/app/shared/session.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir::app {

struct ImportRequest {
  std::string from;  // megatron, torchtitan, neox, deepspeed or nemo; empty: no import
  std::optional<std::filesystem::path> model;
  std::optional<int> gpus;
  std::optional<std::int64_t> vocabulary;
  std::string config;  // of a file of several configurations, its name
};
// With it, from the plan's own fields.
struct ImportedJob {
  std::filesystem::path file;
  std::optional<std::filesystem::path> output;
  std::optional<int> dp;     // where the file does not say
  std::optional<int> slots;  // none: 2, or as many as the schedule cannot do without
  std::string note;
  GivenFields given = {};  // where the file leaves them open
  std::optional<std::filesystem::path> cluster =
      {};  // its devices, where nothing else says how many
};

struct Imported {
  std::filesystem::path plan, model;
  std::vector<Remark> remarks;         // what was not carried
  std::vector<JobArgument> arguments;  // all of the file's, with what became of each
  std::vector<Remark> defaults;        // what it leaves to its tool, as the tool takes it
  std::string stack;                   // the software that runs the job
};

// The software that runs such a job, by name; empty: the plan is of no job.
[[nodiscard]] std::string stack_of(const SourceJob& job);

// Whether --from takes this word.
[[nodiscard]] bool is_job_format(std::string_view name);

// The user's own variables, as the shell that started this program passed them on.
[[nodiscard]] ShellEnvironment environment();

// Files that a job's script names: beside it, else from where this program was started.
[[nodiscard]] ShellFiles files_beside(const std::filesystem::path& job);

// The text of a job's file; "-" is what stands on the standard input.
[[nodiscard]] std::string read_job_text(const std::filesystem::path& file);

// Writes the plan and, unless a model file was named, its model beside it.
[[nodiscard]] Imported import_job(const ImportRequest& request, const ImportedJob& job,
                                  const Session& session);

}  // namespace weir::app

// How far a run is, in a file beside its results to be (weir.progress/1), for those who watch the
// folder from elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "exec/run/run_result.hpp"
#include "plan/job/plan.hpp"

namespace weir::app {

class ProgressFile {
 public:
  // `folder`/progress.json, which goes again when the run has ended, whichever way.
  ProgressFile(const std::filesystem::path& folder, const Plan& plan, std::string backend);
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;
  ~ProgressFile();

  // At most twice a second, and not durably: it must not hold up what it tells about. What cannot
  // be written is not told.
  void tell(const StepReport& report);

 private:
  std::filesystem::path file_;
  std::string plan_, backend_;
  double tokens_;  // a step; 0: of samples that are no sequences
  bool trains_;
  std::optional<std::chrono::steady_clock::time_point> written_;
};

}  // namespace weir::app

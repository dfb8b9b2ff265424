// What a long measurement has so far, kept in a folder as it is measured, so that one that is cut
// short goes on: what was asked, the profile, and every run. Where the result is written the folder
// is gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/table/costs.hpp"
#include "exec/run/run_result.hpp"
#include "plan/job/resolve.hpp"
#include "tools/app/shared/folder_lock.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

class Unfinished {
 public:
  // In OUTPUT/unfinished. `asked`: an object with all that the measurements depend on. With
  // `resume` what is there is gone on from, which throws InputError where something else was asked;
  // else it is removed. Throws InputError where it cannot be written, as all below.
  Unfinished(const std::filesystem::path& output, nlohmann::ordered_json asked, bool resume,
             const Session& session);

  // The profile that is kept, or the one that `measure` makes, kept from now on.
  [[nodiscard]] Costs profile(const std::function<Costs()>& measure) const;
  // The run of `plan` that was kept under this name; throws InputError where it is another plan's.
  [[nodiscard]] std::optional<RunResult> kept(const std::string& name,
                                              const ResolvedPlan& plan) const;
  void keep(const std::string& name, const ResolvedPlan& plan, const RunResult& run) const;
  // Where a program of the user's may keep what it measures, gone on from and removed alike.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // A text beside them, as NAME.json.
  void put(const std::string& name, std::string_view text) const;
  // The result is written.
  void finish() const;

 private:
  [[nodiscard]] std::filesystem::path file_of(const std::string& name) const;

  FolderLock lock_;  // two at once would take each other's measurements away
  std::filesystem::path folder_;
  const Session& session_;
};

}  // namespace weir::app

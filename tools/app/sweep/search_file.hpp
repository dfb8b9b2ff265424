// Where an unfinished search stands, in a file beside its output (weir.search/1), so that one that
// is interrupted can go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "costmodel/table/costs.hpp"
#include "exec/processes/agreement.hpp"
#include "plan/job/cluster.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

// What processes that search together must all have been given, by a line each.
[[nodiscard]] WhatIsRun what_is_searched(const weir::SweepRequest& search, const Costs& costs,
                                         const Cluster& cluster);

class SearchFile {
 public:
  // Of a search whose result goes to `output`: OUTPUT.search.
  SearchFile(const std::filesystem::path& output, const weir::SweepRequest& search,
             const Costs& costs, const Cluster& cluster, const Session& session);

  // What an earlier search left there; throws InputError, naming the key that differs, where it was
  // another one.
  [[nodiscard]] std::optional<SearchState> state() const;
  // Where the search stands, written once a second at most.
  void keep(const SearchState& state);
  // The search has ended: what was kept last is written, or, where nothing is left to do, removed.
  void finish(bool done);

 private:
  void write();

  std::filesystem::path file_;
  std::string asked_;  // JSON: all that the search's result follows from
  std::optional<SearchState> last_;
  std::optional<std::chrono::steady_clock::time_point> written_;
};

}  // namespace weir::app

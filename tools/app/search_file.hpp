// Where an unfinished search stands, in a file beside its output (weir.search/1), so that one that
// is interrupted can go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "sim/search/space.hpp"
#include "tools/app/session.hpp"

namespace weir::app {

class SearchFile {
 public:
  // Of a search whose result goes to `output`: OUTPUT.search.
  SearchFile(const std::filesystem::path& output, const weir::SweepRequest& search,
             const Costs& costs, const Cluster& cluster, const Session& session);

  // What an earlier search left there; throws InputError, naming the key that differs, where it was
  // another one.
  [[nodiscard]] std::optional<SearchState> state() const;
  // Writes where the search stands, once a second at most.
  void keep(const SearchState& state);
  // The result is there.
  void remove() const;

 private:
  std::filesystem::path file_;
  nlohmann::ordered_json asked_;  // all that the search's result follows from
  std::optional<std::chrono::steady_clock::time_point> kept_;
};

}  // namespace weir::app

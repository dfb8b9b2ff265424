// Layouts whose processors are processes that a launcher started: what they have to agree on, and
// who of them speaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "exec/processes/processes.hpp"
#include "tools/app/model/networks.hpp"
#include "tools/app/run/process_session.hpp"

namespace weir::app {

// All processes run the same network under the same layouts. Collective; throws UsageError where
// one was given something else.
void require_same_layouts(const NetworksResult& result, int rounds, std::uint64_t seed,
                          Processes& processes);

// use(processes, session) in each of them, where the leader's session alone speaks. Throws
// EndedTogether where one of them failed.
void by_processes(const SessionOptions& options, const Session& session,
                  const std::function<void(Processes&, const Session&)>& use);

}  // namespace weir::app

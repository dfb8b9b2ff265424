// A sweep's search, alone or among processes, and the round that asks hosts where it found nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "exec/processes/processes.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/shared/session.hpp"
#include "tools/app/sweep/sweep_request.hpp"

namespace weir::app {

// Who searches, and for whom.
struct Searchers {
  const SweepRequest& r;
  std::optional<SearchParty> party;
  Processes* others;
  const Session& session;
  [[nodiscard]] bool lead() const { return !party || party->index == 0; }
};

// Searches, and once more with the optimizer's state, or half of it, with the hosts where nothing
// surely fits without. `search` and `asked` are then those whose result is the reply's.
void search_all(weir::SweepRequest& search, weir::SweepRequest& asked, SweepReply& reply,
                const Searchers& by);

}  // namespace weir::app

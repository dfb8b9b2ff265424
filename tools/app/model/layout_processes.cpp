// The others than the leader run silently.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/layout_processes.hpp"

#include <exception>
#include <string>

#include "exec/processes/agreement.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/text/sha256.hpp"
#include "tools/app/shared/exit_code.hpp"
#include "tools/app/shared/version.hpp"

namespace weir::app {

void require_same_layouts(const NetworksResult& result, int rounds, std::uint64_t seed,
                          Processes& processes) {
  require_agreement(processes, {{"weir", version_line()},
                                {"the program and its layouts",
                                 sha256_hex(layout::to_json(result.network, result.layouts))},
                                {"rounds", std::to_string(rounds)},
                                {"seed", std::to_string(seed)}});
}

void by_processes(const SessionOptions& options, const Session& session,
                  const std::function<void(Processes&, const Session&)>& use) {
  const ProcessSession joined = open_session(TransportKind::mpi, options, session);
  Processes& processes = *joined.processes;
  try {
    Session own(session);
    if (processes.index() > 0) {
      own.note = own.log = [](const std::string&) {};
      own.progress = [](const std::string&, int, int) {};
    }
    use(processes, own);
    processes.barrier();
  } catch (const Transport::Stopped&) {
    throw EndedTogether(processes.conclude({}));
  } catch (...) {
    throw EndedTogether(processes.conclude(ending_of(std::current_exception())));
  }
}

}  // namespace weir::app

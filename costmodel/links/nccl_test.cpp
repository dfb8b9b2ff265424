// Completes a test once its samples are read, whichever form they were in.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/nccl_test.hpp"

#include <algorithm>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {

double bus_factor(std::string_view collective, int ranks) {
  const double n = std::max(ranks, 1);
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  if (collective == "all_gather" || collective == "reduce_scatter" || collective == "alltoall" ||
      collective == "gather" || collective == "scatter") {
    return (n - 1) / n;
  }
  return 1;
}

std::string collective_of(const std::string& command) {
  const std::string name = command.substr(command.rfind('/') + 1);
  return name.substr(0, name.rfind("_perf"));
}

void complete_test(NcclTest& test, int hosts, std::string collective, const std::string& file) {
  if (test.ranks < 2) throw InputError(file, collective, "expected at least two devices");
  test.nodes = std::max(hosts, 1);
  test.bus_factor = bus_factor(collective, test.ranks);
  test.collective = std::move(collective);
  std::ranges::stable_sort(test.samples, {}, &TimedMessage::size);
}

}  // namespace weir

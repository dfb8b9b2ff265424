// Constants of links, fitted to measured collectives: what the cluster files of tools/examples
// have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "tools/reproduce/published.hpp"

namespace weir {

// Two nodes' links with the constants of all rows, and how many rows each was fitted to.
struct FittedLinks {
  Cluster cluster;
  int ring_rows = 0, switch_rows = 0, message_rows = 0, network_rows = 0, tree_rows = 0;
};

// Of 8 H100 a node and a 400 Gb/s card each. Throws InputError.
[[nodiscard]] FittedLinks fit_h100_links(const Publications& published);
// The playbook's cluster: the node of the above, and its own network.
[[nodiscard]] FittedLinks fit_playbook_links(const Publications& published);

}  // namespace weir

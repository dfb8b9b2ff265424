// What nccl-tests' tests tell of a link: messages of themselves (sendrecv), collectives of the ring
// that runs over it. All devices that send at once share a node's cards, so a sendrecv of several
// devices a node is no ring's rate, and a ring's rate is that of all its devices together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "costmodel/links/link_fit.hpp"
#include "costmodel/links/nccl_test.hpp"
#include "plan/job/cluster.hpp"

namespace weir {

struct FittedTest {
  std::string file;
  NcclTest test;
  LinkFit fit;
};

// Where a link stands and what is known of it.
struct LinkPlace {
  bool between_nodes = false;
  int devices_per_node = 1;  // of the cluster
  Seconds within{0};         // a step's latency within a node
  Link before;               // what is kept where no test tells it
};

struct MeasuredLink {
  Link link;
  std::string origin;         // what was taken from which test, and what no test told
  const FittedTest* largest;  // the test that told most
};

// nullopt: no test tells anything of this link. Throws InputError: a test's times do not grow with
// the size.
//
// A ring over G devices in each of several nodes runs through all their cards: its bus bandwidth is
// G devices' share (group_link multiplies by them again). An all-to-all of p devices sends (p - G)
// of its (p - 1) parts through each device's own share. Latencies are those that make the forecast
// of the smallest message what was measured (costmodel/links/collectives).
[[nodiscard]] std::optional<MeasuredLink> measured_link(std::span<const FittedTest> tests,
                                                        const LinkPlace& place);

}  // namespace weir

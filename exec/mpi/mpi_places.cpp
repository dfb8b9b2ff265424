// SPDX-License-Identifier: Apache-2.0
#include "exec/mpi/mpi_places.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "exec/mpi/mpi_check.hpp"

namespace weir {
namespace {

// What each process tells the others of itself: plain bytes.
struct Card {
  char host[256];
  std::uint64_t boot;  // of the kernel that runs it, and so of its clock
  cpu_set_t cores;
};

Card own_card() {
  Card card;
  std::memset(&card, 0, sizeof(card));
  gethostname(card.host, sizeof(card.host) - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  card.boot = std::hash<std::string>{}(boot.empty() ? card.host : boot);
  if (sched_getaffinity(0, sizeof(card.cores), &card.cores) != 0) CPU_SET(0, &card.cores);
  return card;
}

// A host is oversubscribed when there are more processes than cores, or more than cores that all of them share.
bool oversubscribes(const std::vector<Card>& cards, std::uint64_t boot) {
  cpu_set_t all;
  CPU_ZERO(&all);
  int processes = 0;
  for (const Card& card : cards) {
    if (card.boot != boot) continue;
    ++processes;
    CPU_OR(&all, &all, &card.cores);
    const auto alike = std::count_if(cards.begin(), cards.end(), [&](const Card& other) {
      return other.boot == boot && CPU_EQUAL(&other.cores, &card.cores);
    });
    if (alike > CPU_COUNT(&card.cores)) return true;
  }
  return processes > CPU_COUNT(&all);
}

}  // namespace

MpiPlaces mpi_places(MPI_Comm world) {
  int index = 0, count = 1;
  WEIR_MPI_CHECK(MPI_Comm_rank(world, &index));
  WEIR_MPI_CHECK(MPI_Comm_size(world, &count));
  const Card own = own_card();
  std::vector<Card> cards(static_cast<std::size_t>(count));
  WEIR_MPI_CHECK(MPI_Allgather(&own, sizeof(Card), MPI_BYTE, cards.data(), sizeof(Card), MPI_BYTE, world));
  MpiPlaces found;
  for (std::size_t p = 0; p < cards.size(); ++p) {
    ProcessPlace place{cards[p].host, cards[p].boot, 0, 0, 0};
    for (std::size_t other = 0; other < cards.size(); ++other) {
      if (cards[other].boot != cards[p].boot) continue;
      ++place.host_processes;
      if (other >= p) continue;
      ++place.on_host;
      if (CPU_EQUAL(&cards[other].cores, &cards[p].cores)) ++place.on_cores;
    }
    found.places.push_back(std::move(place));
    found.oversubscribed = found.oversubscribed || oversubscribes(cards, cards[p].boot);
  }
  return found;
}

}  // namespace weir

// All processes tell each other their host, clock and cores.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/mpi/process_locations.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

// What each process tells the others of itself: plain bytes.
struct Card {
  char host[256];
  std::uint64_t boot;  // of the kernel that runs it, and so of its clock
  cpu_set_t cores;
};

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Of the kernel that runs this process, and so of its clock: the same in all processes of a
// machine.
std::uint64_t kernel_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::hash<std::string>{}(boot.empty() ? host_name() : boot);
}

Card own_card() {
  Card card;
  std::memset(&card, 0, sizeof(card));
  host_name().copy(card.host, sizeof(card.host) - 1);
  card.boot = kernel_id();
  if (sched_getaffinity(0, sizeof(card.cores), &card.cores) != 0) CPU_SET(0, &card.cores);
  return card;
}

std::vector<Card> exchange(ByteTransport& bytes, std::chrono::nanoseconds patience) {
  auto looked = std::chrono::steady_clock::now();
  auto until = looked + patience;
  const auto count = static_cast<std::size_t>(bytes.count()),
             index = static_cast<std::size_t>(bytes.index());
  std::vector<Card> cards(count);
  cards[index] = own_card();
  std::vector<std::pair<int, ByteTransport::Request>> under_way;
  for (std::size_t p = 0; p < count; ++p) {
    if (p == index) continue;
    const int peer = static_cast<int>(p);
    const auto theirs = std::span(cards).subspan(p, 1), own = std::span(cards).subspan(index, 1);
    under_way.emplace_back(
        peer, bytes.start_receive(peer, Channel::messages, 0, std::as_writable_bytes(theirs)));
    under_way.emplace_back(peer, bytes.start_send(peer, Channel::messages, 0, std::as_bytes(own)));
  }
  for (const auto& [peer, request] : under_way) {
    while (!bytes.done(request)) {
      const auto now = std::chrono::steady_clock::now();
      // Who was held up himself cannot know who came meanwhile.
      if (now - looked > patience / 4) until += now - looked;
      looked = now;
      if (now > until) {
        throw RunFailed(
            fmt::format("process {} of {} went away before the run began", peer, count));
      }
      std::this_thread::sleep_for(50us);
    }
  }
  return cards;
}

// A host is oversubscribed when there are more processes than cores, or more than cores that all of
// them share.
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

ProcessLocations find_locations(ByteTransport& bytes, std::chrono::nanoseconds patience) {
  const std::vector<Card> cards = exchange(bytes, patience);
  ProcessLocations found;
  for (std::size_t p = 0; p < cards.size(); ++p) {
    ProcessLocation location{cards[p].host, cards[p].boot, 0, 0, 0};
    for (std::size_t other = 0; other < cards.size(); ++other) {
      // Hosts are told apart by their boot, which no two share; names can be equal.
      if (cards[other].boot != cards[p].boot) continue;
      ++location.host_processes;
      if (other >= p) continue;
      ++location.on_host;
      if (CPU_EQUAL(&cards[other].cores, &cards[p].cores)) ++location.on_cores;
    }
    found.locations.push_back(std::move(location));
    found.oversubscribed = found.oversubscribed || oversubscribes(cards, cards[p].boot);
  }
  return found;
}

}  // namespace weir

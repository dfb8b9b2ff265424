// Everybody sends to everybody: how long the text is, then the text.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/all_gather.hpp"

#include <cstdint>
#include <span>

namespace weir {
namespace {

constexpr int kSizeTag = 7, kTextTag = 8;

// Receives from all others into `into(process)` what they send of `own`.
template <class Into>
void exchange(Processes& processes, int tag, std::span<const std::byte> own, const Into& into) {
  std::vector<Processes::Ticket> tickets;
  for (int process = 0; process < processes.count(); ++process) {
    if (process == processes.index()) continue;
    tickets.push_back(processes.start_receive(process, tag, into(process)));
    tickets.push_back(processes.start_send(process, tag, own));
  }
  for (const Processes::Ticket ticket : tickets) processes.wait(ticket);
}

}  // namespace

std::vector<std::string> all_gather(Processes& processes, const std::string& own) {
  const auto count = static_cast<std::size_t>(processes.count());
  std::vector<std::uint64_t> sizes(count);
  const std::uint64_t size = own.size();
  exchange(processes, kSizeTag, std::as_bytes(std::span(&size, 1)), [&](int process) {
    return std::as_writable_bytes(std::span(&sizes[static_cast<std::size_t>(process)], 1));
  });
  std::vector<std::string> all(count);
  for (std::size_t process = 0; process < count; ++process) all[process].resize(sizes[process]);
  exchange(processes, kTextTag, std::as_bytes(std::span(own)), [&](int process) {
    return std::as_writable_bytes(std::span(all[static_cast<std::size_t>(process)]));
  });
  all[static_cast<std::size_t>(processes.index())] = own;
  return all;
}

}  // namespace weir

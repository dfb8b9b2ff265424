// Brings what goes out to the host, and what comes in to the device when all of it is there.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_tensor_links.hpp"

namespace weir {
namespace {

constexpr int kLinksTag = 8;  // process_run and process_tensor_group have those below

}  // namespace

void ProcessTensorLinks::exchange(std::span<const Part> sends, std::span<const Part> receives) {
  const auto process_of = [this](const Part& part) {
    return members_[static_cast<std::size_t>(part.place)];
  };
  sent_.resize(sends.size());
  received_.resize(receives.size());
  std::vector<Processes::Ticket> tickets;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Tensor& tensor = sends[i].tensor;
    sent_[i].resize(static_cast<std::size_t>(tensor.bytes));
    backend_.to_host(sent_[i].data(), tensor, tensor.bytes);
    tickets.push_back(processes_.start_send(process_of(sends[i]), kLinksTag, sent_[i]));
  }
  for (std::size_t i = 0; i < receives.size(); ++i) {
    received_[i].resize(static_cast<std::size_t>(receives[i].tensor.bytes));
    tickets.push_back(processes_.start_receive(process_of(receives[i]), kLinksTag, received_[i]));
  }
  for (const Processes::Ticket ticket : tickets) processes_.wait(ticket);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const Tensor& tensor = receives[i].tensor;
    backend_.to_device(tensor, received_[i].data(), tensor.bytes);
  }
}

}  // namespace weir

// Messages between the processes of the tests that are threads: copied, and never held up by a
// slot. They come in the order in which they were sent, and may be asked for in another. It keeps
// no times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/processes/processes.hpp"

namespace weir {

class CopiedTransport : public ProcessTransport {
 public:
  CopiedTransport(const TransportRequest& request, Processes& processes)
      : program_(request.program),
        message_bytes_(request.message_bytes),
        first_process_(request.first_process),
        arena_(request.arena),
        processes_(processes) {}

  void begin_step(StepClock&) override {}
  void send(std::int32_t edge, std::int32_t, Tensor message) override {
    const Rank to = program_.edge(EdgeId{edge}).to;
    const std::span bytes(message.data, static_cast<std::size_t>(message.bytes));
    static_cast<void>(
        processes_.start_send(first_process_ + to.value, kFirstTag + edge, std::as_bytes(bytes)));
    arena_->release(message);  // it has been copied
  }
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index) override {
    std::vector<std::vector<std::byte>>& come = come_[edge];
    while (std::ssize(come) <= index) {
      come.emplace_back(static_cast<std::size_t>(
          aligned_bytes(bytes_of(edge, static_cast<std::int32_t>(come.size())))));
      processes_.wait(
          processes_.start_receive(first_process_ + program_.edge(EdgeId{edge}).from.value,
                                   kFirstTag + edge, std::span(come.back())));
    }
    const Tensor into = arena_->allocate(bytes_of(edge, index));
    const std::vector<std::byte> message = std::move(come[static_cast<std::size_t>(index)]);
    std::memcpy(into.data, message.data(), message.size());
    return into;
  }
  void consumed(std::int32_t, std::int32_t) override {}
  void stop() override {}
  void end_step() override { come_.clear(); }
  [[nodiscard]] std::int64_t blocks() const override { return 0; }

 private:
  static constexpr int kFirstTag = 1 << 20;  // behind all of the run's own

  [[nodiscard]] std::int64_t bytes_of(std::int32_t edge, std::int32_t index) const {
    const OperationId first = program_.lane(program_.edge(EdgeId{edge}).receive_lane).first;
    return message_bytes_[(first + index).position()];
  }

  const Program& program_;
  const std::vector<std::int64_t>& message_bytes_;
  int first_process_;
  Arena* arena_;
  Processes& processes_;
  std::map<std::int32_t, std::vector<std::vector<std::byte>>> come_;  // this step, by edge
};

inline std::function<ProcessLinks(Processes&)> copied_links() {
  return [](Processes& processes) -> ProcessLinks {
    return TransportFactory([&processes](const TransportRequest& request) {
      return std::make_unique<CopiedTransport>(request, processes);
    });
  };
}

}  // namespace weir

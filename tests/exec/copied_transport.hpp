// Messages between the processes of the tests that are threads: copied, in order, and never held up
// by a slot. It keeps no times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

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
    const Edge& from = program_.edge(EdgeId{edge});
    const OperationId id = program_.lane(from.receive_lane).first + index;
    const Tensor into = arena_->allocate(message_bytes_[id.position()]);
    const std::span bytes(into.data, static_cast<std::size_t>(into.bytes));
    processes_.wait(processes_.start_receive(first_process_ + from.from.value, kFirstTag + edge,
                                             std::as_writable_bytes(bytes)));
    return into;
  }
  void consumed(std::int32_t, std::int32_t) override {}
  void stop() override {}
  void end_step() override {}
  [[nodiscard]] std::int64_t blocks() const override { return 0; }

 private:
  static constexpr int kFirstTag = 1 << 20;  // behind all of the run's own

  const Program& program_;
  const std::vector<std::int64_t>& message_bytes_;
  int first_process_;
  Arena* arena_;
  Processes& processes_;
};

inline std::function<ProcessLinks(Processes&)> copied_links() {
  return [](Processes& processes) -> ProcessLinks {
    return TransportFactory([&processes](const TransportRequest& request) {
      return std::make_unique<CopiedTransport>(request, processes);
    });
  };
}

}  // namespace weir

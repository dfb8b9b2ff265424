// Messages between processes over MPI: one tag per directed edge, so each edge is a FIFO.
// The consumer of a message sends the freed slot back as a credit, and only a message with a slot
// is sent: a full edge holds it here. Memory for a message is taken when its start arrives, so a
// slot counts from the start of its send, as in the forecast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "exec/device/host_blocks.hpp"
#include "exec/processes/mpi/process_group.hpp"

namespace weir {

class MpiTransport : public ProcessTransport {
 public:
  MpiTransport(const TransportRequest& request, ProcessGroup& processes);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  void begin_step(StepClock& clock) override;
  void send(std::int32_t edge, std::int32_t index, Tensor message) override;
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index) override;
  void consumed(std::int32_t edge, std::int32_t index) override;
  void end_step() override;
  [[nodiscard]] std::int64_t blocks() const override { return message_arena_.blocks(); }
  void stop() override {}  // Processes stops those who wait

 private:
  struct UnderWay {
    ByteTransport::Request request = 0;
    std::int32_t index = 0;
  };
  struct Fifo {  // with an end here
    int peer = 0;
    OperationId first;  // of its lane on this rank
    std::int32_t count = 0;
    std::vector<Tensor> messages;
    std::vector<std::uint8_t> produced, freed;  // outgoing
    std::int32_t next = 0;                      // outgoing: to be sent; incoming: to arrive
    std::int32_t done = 0;                      // outgoing: have left; incoming: delivered
    std::deque<UnderWay> under_way;
    std::vector<std::int32_t> credits;  // incoming: their contents, while they are sent
  };
  struct Credit {  // coming back
    std::int32_t edge = 0;
    std::int32_t index = 0;
    ByteTransport::Request request = 0;
  };
  void send_ready(std::int32_t edge, Fifo& e);  // with the lock held, as all below
  void progress();
  void take_credits();
  void take_messages();
  void finish_sends();
  void finish_receives();
  [[nodiscard]] bool staged() const {
    return request_.backend != nullptr && !request_.backend->in_host_memory();
  }
  void release_sent(Tensor& message);  // its bytes leave the rank's account

  TransportRequest request_;
  ProcessGroup& processes_;
  StepClock* clock_ = nullptr;
  HostBlocks blocks_;
  Arena message_arena_;  // memory of messages: blocks go to and fro between it and the rank's arena
  std::map<std::int32_t, Fifo> outgoing_, incoming_;      // by edge
  std::deque<ByteTransport::Request> credits_under_way_;  // to senders
  std::deque<Credit> credits_coming_;
};

}  // namespace weir

// Messages between the GPUs of several processes over NCCL: one communicator for each directed edge, connected before
// the first step in rounds in which every process has one edge at most. The receiver posts a receive for each free
// slot, and a send waits on its stream until its receive is posted: slots bound the messages without a word between the
// ends. Strictly first in, first out: what the plan's proof allows is what can run.
//
// Actions are finished on the host before their message is sent (exec/interpreter), and a message is whole before its
// consumer is launched, so streams need no order between them. Slots are taken from the arena for the whole step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "exec/cuda/event.hpp"
#include "exec/nccl/nccl_edge.hpp"
#include "exec/processes.hpp"

namespace weir {

class NcclTransport : public ProcessTransport {
 public:
  // Collective. Throws UsageError for a backend whose tensors are in host memory, RunFailed.
  NcclTransport(const TransportRequest& request, Processes& processes);

  void begin_step(StepClock& clock) override;
  void send(std::int32_t edge, std::int32_t index, Tensor message) override;
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index) override;
  void consumed(std::int32_t edge, std::int32_t index) override;
  void end_step() override;
  [[nodiscard]] std::int64_t blocks() const override { return 0; }
  void stop() override {}  // Processes stops those who wait

 private:
  struct End {  // of an edge, on this rank
    std::unique_ptr<NcclEdge> edge;
    OperationId first = 0;  // of its lane
    std::int32_t count = 0;
    std::vector<Tensor> messages;
    std::vector<Event> began, ended;               // by message
    std::vector<std::int64_t> posted_ns, seen_ns;  // by message: on the host, which the events may not contradict
    std::vector<std::uint8_t> consumed;
    std::int32_t next = 0;      // to be sent, or for which a receive is to be posted
    std::int32_t released = 0;  // sent messages whose memory has gone back
  };

  void connect(Processes& processes);
  void make_end(std::int32_t edge, const ncclUniqueId& id);
  void post_receives(End& end);
  void release_sent(End& end);
  [[nodiscard]] std::int64_t time_of(const Event& event) const;
  void read_times(const End& end);

  TransportRequest request_;
  Processes& processes_;
  StepClock* clock_ = nullptr;
  std::map<std::int32_t, End> outgoing_, incoming_;  // by edge
  Stream clock_stream_;
  Event base_;                // of the step, on an idle clock stream
  std::int64_t base_ns_ = 0;  // by the run's clock
};

}  // namespace weir

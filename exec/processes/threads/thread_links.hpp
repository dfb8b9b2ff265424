// Messages between the stages of threads that are a plan's processes: each pipeline, of a replica
// and a place among the devices that divide its layers, has one transport that hands tensors over
// (exec/threads/thread_transport), and each rank keeps a clock of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/processes/processes.hpp"
#include "exec/threads/thread_transport.hpp"

namespace weir {

// What the ranks of one pipeline share.
class ThreadPipeline {
 public:
  explicit ThreadPipeline(const Program& program, bool spin)
      : program_(program), spin_(spin), arenas_(program.shape().ranks, nullptr) {}

  // Before the first step, by each rank; the arena may be null where nothing is computed.
  void join(Rank rank, Arena* arena);
  // By each rank, when all have joined and the step before has ended everywhere. Throws
  // Transport::Stopped.
  ThreadTransport& begin_step(Rank rank, std::int64_t step, Transport::Now now, StepClock& clock);
  void stop();

 private:
  const Program& program_;
  bool spin_;
  std::mutex mutex_;  // before what follows: all ranks call all of the above
  std::vector<Arena*> arenas_;
  std::unique_ptr<ThreadTransport> transport_;
  std::int64_t begun_ = 0;  // steps
  bool stopped_ = false;
};

class ThreadLinks {
 public:
  ThreadLinks(const Program& program, int pipelines, bool spin);
  // For the thread that is `own`; both outlive the transport.
  [[nodiscard]] ProcessLinks of(Processes& own);
  void stop();

 private:
  std::vector<std::unique_ptr<ThreadPipeline>> pipelines_;
};

}  // namespace weir

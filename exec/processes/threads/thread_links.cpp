// A rank's end of its pipeline's transport.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/threads/thread_links.hpp"

#include <algorithm>

namespace weir {
namespace {

class ThreadLink : public ProcessTransport {
 public:
  ThreadLink(ThreadPipeline& pipeline, Rank rank, Now now)
      : pipeline_(pipeline), rank_(rank), now_(now) {}

  void begin_step(StepClock& clock) override {
    edges_ = &pipeline_.begin_step(rank_, ++steps_, now_, clock);
  }
  void send(std::int32_t edge, std::int32_t index, Tensor message) override {
    edges_->send(edge, index, message);
  }
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index) override {
    return edges_->receive(edge, index);
  }
  void consumed(std::int32_t edge, std::int32_t index) override { edges_->consumed(edge, index); }
  void stop() override {}      // the group stops all pipelines
  void end_step() override {}  // whoever consumes a step's last message has let all others go
  [[nodiscard]] std::int64_t blocks() const override { return 0; }

 private:
  ThreadPipeline& pipeline_;
  Rank rank_;
  Now now_;
  ThreadTransport* edges_ = nullptr;
  std::int64_t steps_ = 0;  // begun
};

}  // namespace

void ThreadPipeline::join(Rank rank, Arena* arena) {
  const std::scoped_lock lock(mutex_);
  arenas_[rank.position()] = arena;
}

ThreadTransport& ThreadPipeline::begin_step(Rank rank, std::int64_t step, Transport::Now now,
                                            StepClock& clock) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) throw Transport::Stopped{};
  if (!transport_) {
    // Timed waits have no arenas: their messages are empty.
    const bool computes = std::ranges::find(arenas_, nullptr) == arenas_.end();
    transport_ = std::make_unique<ThreadTransport>(
        program_, computes ? arenas_ : std::vector<Arena*>{}, now, spin_);
  }
  // The first rank of a step empties the edges: all have ended the one before.
  if (begun_ < step) {
    transport_->begin_step(clock);
    begun_ = step;
  }
  transport_->keep_times(rank, clock);
  return *transport_;
}

void ThreadPipeline::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  if (transport_) transport_->stop();
}

ThreadLinks::ThreadLinks(const Program& program, int pipelines, bool spin) {
  for (int pipeline = 0; pipeline < pipelines; ++pipeline)
    pipelines_.push_back(std::make_unique<ThreadPipeline>(program, spin));
}

ProcessLinks ThreadLinks::of(Processes& own) {
  return TransportFactory([this, &own](const TransportRequest& request) {
    const int ranks = request.program.shape().ranks;
    ThreadPipeline& pipeline = *pipelines_[static_cast<std::size_t>(request.first_process / ranks)];
    pipeline.join(request.rank, request.arena);
    own.barrier();  // all ranks' arenas are known
    return std::make_unique<ThreadLink>(pipeline, request.rank, request.now);
  });
}

void ThreadLinks::stop() {
  for (const auto& pipeline : pipelines_) pipeline->stop();
}

}  // namespace weir

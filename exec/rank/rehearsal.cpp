// The silent backend, transport and exchange of a rehearsal.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/rehearsal.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "exec/device/free_memory.hpp"
#include "exec/rank/activity.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/message_sizes.hpp"
#include "exec/rank/rank_device.hpp"
#include "exec/rank/trainer.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Computes nothing; its memory is another's count.
class SilentBackend : public Backend {
 public:
  explicit SilentBackend(CountedBlocks& blocks) : blocks_(blocks) {}
  void* allocate(std::int64_t bytes) override { return blocks_.allocate(bytes); }
  // The blocks of a rank stay taken: its neighbours need their own beside them.
  void release(void*, std::int64_t) noexcept override {}
  void prepare(std::span<const Layer>, std::int64_t, std::int64_t) override {}
  [[nodiscard]] std::int64_t scratch_bytes() const override { return 0; }
  void use_scratch(const Tensor&) override {}
  void forward(const LayerCall&) override {}
  void backward_input(const LayerCall&) override {}
  void backward_weight(const LayerCall&) override {}
  void update(std::span<const UpdateCall>) override {}
  void copy_rows(const RowsCopy&) override {}
  void finish() override {}
  // Losses of zero.
  [[nodiscard]] HostMemory host_memory(std::int64_t bytes) override {
    HostMemory memory = Backend::host_memory(bytes);
    std::memset(memory.get(), 0, static_cast<std::size_t>(bytes));
    return memory;
  }
  void to_device(const Tensor&, const void*, std::int64_t) override {}
  void to_host(void*, const Tensor&, std::int64_t) override {}

 private:
  CountedBlocks& blocks_;
};

class SilentTransport : public Transport {
 public:
  SilentTransport(const ResolvedPlan& loaded, Arena& arena)
      : program_(loaded.program), bytes_(message_bytes(loaded)), arena_(arena) {}
  void begin_step(StepClock&) override {}
  // What leaves is another rank's, and its block comes back to nobody here: one that is received
  // takes its place.
  void send(std::int32_t, std::int32_t, Tensor message) override { arena_.release(message); }
  [[nodiscard]] Tensor receive(std::int32_t edge, std::int32_t index) override {
    const OperationId first = program_.lane(program_.edge(EdgeId{edge}).receive_lane).first;
    return arena_.allocate(bytes_[(first + index).position()]);
  }
  void consumed(std::int32_t, std::int32_t) override {}
  void stop() override {}

 private:
  const Program& program_;
  std::vector<std::int64_t> bytes_;
  Arena& arena_;
};

class SilentExchange : public GradientExchange {
 public:
  void ended(OperationId, std::uint32_t) override {}
  void await(OperationId, std::uint32_t, StepClock&) override {}
  [[nodiscard]] std::vector<Tensor> copies(Stage, std::size_t) override { return {}; }
  [[nodiscard]] double factor() const override { return 1; }
  void end_step() override {}
  void stop() override {}
};

std::int64_t no_time() { return 0; }

ParameterState no_state(ParameterId, const ParameterTensor&) { return {}; }

}  // namespace

void* CountedBlocks::allocate(std::int64_t bytes) {
  if (bytes > left_) throw NoMemory(Bytes(left_));
  left_ -= bytes;
  void* block = std::bit_cast<void*>(next_);
  next_ += static_cast<std::uintptr_t>(bytes);
  return block;
}

void CountedBlocks::release(void*, std::int64_t bytes) noexcept { left_ += bytes; }

void rehearse(const ResolvedPlan& loaded, Rank rank, CountedBlocks& blocks) {
  // The same worker, trainer and interpreter as in the run: what they take from the arena is what
  // the run will take.
  RankDevice device(std::make_unique<SilentBackend>(blocks));
  const Batches no_data{BatchRequest{}};
  Training training(loaded, loaded.program, no_data, no_state);
  device.prepare(loaded, rank, training.state, training.stages);
  SilentTransport transport(loaded, device.arena());
  SilentExchange exchange;
  Trainer trainer(training, device.backend(), exchange, rank);
  const std::vector<MessageRoute> routes = route_messages(loaded.program);
  Activity activity(loaded.program.shape().ranks);
  StepClock clock;
  clock.resize(loaded.program.size());
  // Without a clock: a rehearsal is of memory, not of time.
  StepContext context{loaded.program, routes, transport, exchange, no_time, clock, activity};
  try {
    interpret(context, rank, trainer, 0);
  } catch (const RunFailed& told) {
    throw RunFailed(fmt::format("before the first step: {}", told.what()));
  }
}

}  // namespace weir

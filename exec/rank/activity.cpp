// Slots that ranks write and a thread reads.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/activity.hpp"

#include <fmt/format.h>

#include <chrono>

namespace weir {

Activity::Activity(int ranks)
    : slots_(static_cast<std::size_t>(ranks)), lines_(static_cast<std::size_t>(ranks)) {}

void Activity::write_down(Rank rank, std::unique_ptr<LastAction> line) {
  lines_[rank.position()] = std::move(line);
}

void Activity::forget_lines() {
  for (const auto& line : lines_) {
    if (line) line->remove();
  }
}

void Activity::begin(Rank rank, OperationId id, std::uint32_t step, std::int64_t now_ns) {
  Slot& slot = slots_[rank.position()];
  slot.id.store(static_cast<std::int64_t>(id.position()), std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_relaxed);
  // Release: who reads the time finds the action that began then, or a later one.
  slot.since_ns.store(now_ns, std::memory_order_release);
  if (const auto& line = lines_[rank.position()]) line->begun(id, step);
}

void Activity::end(Rank rank) {
  Slot& slot = slots_[rank.position()];
  slot.since_ns.store(0, std::memory_order_release);
  const OperationId id{static_cast<std::size_t>(slot.id.load(std::memory_order_relaxed))};
  if (const auto& line = lines_[rank.position()])
    line->ended(id, slot.step.load(std::memory_order_relaxed));
}

std::optional<Activity::Action> Activity::longest() const {
  std::optional<Action> longest;
  for (std::size_t rank = 0; rank < slots_.size(); ++rank) {
    const std::int64_t since = slots_[rank].since_ns.load(std::memory_order_acquire);
    if (since == 0 || (longest && longest->since_ns <= since)) continue;
    longest = Action{static_cast<std::int32_t>(rank),
                     OperationId{static_cast<std::size_t>(slots_[rank].id.load())},
                     slots_[rank].step.load(), since};
  }
  return longest;
}

std::string place_of(const Program& program, Rank rank, std::uint32_t step, OperationId id) {
  return fmt::format("rank {}, step {}, {}", rank.value, step, to_string(program.op(id).action));
}

Watchdog::Watchdog(Options options) : options_(std::move(options)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  done_.store(true);
  thread_.join();
}

void Watchdog::watch() {
  while (!done_.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto action = options_.activity.longest();
    if (!action) continue;
    const Seconds taken{Nanoseconds(options_.now() - action->since_ns)};
    if (taken <= options_.limit) continue;
    const std::string place =
        place_of(options_.program, Rank{action->rank}, action->step, action->id);
    options_.hangs(fmt::format("{}: has not ended for {:.1f} s", place, taken.count()));
    return;
  }
}

}  // namespace weir

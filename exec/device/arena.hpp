// A rank's memory: every tensor comes from here, rounded up to 64 bytes, and the arena knows how
// many bytes are alive and how many ever were at once. Freed blocks wait for the next tensor of
// their size, so a steady state allocates nothing. A tensor may be handed to another rank's arena;
// the bytes then change accounts, the block does not move.
//
// Where launches return before their work is done (exec/device/stream), blocks change hands
// in launch order: a freed block carries an event behind its last use, and who takes it begins
// after that event, unless its own stream's order says so already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "exec/device/stream.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Where blocks come from: host memory for the CPU, a device's memory for a GPU.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  [[nodiscard]] virtual void* allocate(
      std::int64_t bytes) = 0;  // 64-byte aligned; throws std::bad_alloc
  virtual void release(void* block, std::int64_t bytes) noexcept = 0;
};

struct Tensor {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;  // as accounted, a multiple of 64
  [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(data); }
  explicit operator bool() const { return data != nullptr; }
};

class Arena {
 public:
  explicit Arena(BlockSource& source) : source_(source) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] Tensor allocate(std::int64_t bytes);  // 0 bytes: an empty tensor
  void release(Tensor& tensor) noexcept;              // empties it
  // Moves the account of a tensor from this arena to another. Any thread may call it.
  void hand_over(const Tensor& tensor, Arena& to);
  // Its halves: between them the bytes are in neither account.
  void give(const Tensor& tensor) { count(-tensor.bytes); }
  void take_over(const Tensor& tensor) { count(tensor.bytes); }

  // For asynchronous backends. What is released from now on is last used by the action that `end`
  // will stand behind.
  void begin_action(const Event& end) { action_ = end; }
  // A tensor that another stream writes first, and one that another stream, `last_use`'s, reads
  // last.
  [[nodiscard]] Tensor allocate_for(std::int64_t bytes, Stream& stream);
  void release_after(Tensor& tensor, const Event& last_use) noexcept;
  // All that was launched in a step has ended: no freed block need be waited for. The steps to come
  // take no new blocks where they can wait for one.
  void end_step() noexcept;

  // Between two steps: which blocks are free, so that what a step did that never ran can be undone.
  struct Books;
  [[nodiscard]] Books books() const;
  void restore(Books&& books) noexcept;  // no block was taken from the source since

  [[nodiscard]] Bytes live() const { return Bytes(live_.load(std::memory_order_relaxed)); }
  [[nodiscard]] Bytes peak() const { return Bytes(peak_.load(std::memory_order_relaxed)); }
  // Blocks taken from the source so far; constant in a steady state. Read it while the rank's
  // thread rests.
  [[nodiscard]] std::int64_t blocks() const { return static_cast<std::int64_t>(taken_.size()); }

 private:
  // In the first step, a block that another stream still uses is waited for only if two of its size
  // are free; until then a new one is taken, so that computing goes on while a message is copied.
  static constexpr std::size_t kInTransit = 2;
  struct Free {
    std::byte* data = nullptr;
    Event last_use;  // of no stream: long ago
  };
  [[nodiscard]] std::byte* take(std::vector<Free>& blocks, std::int64_t bytes, Stream* stream);
  void count(std::int64_t bytes);

  BlockSource& source_;
  Event action_;
  bool settled_ = false;  // a step has ended
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> peak_{0};
  // Only the rank's own thread allocates and releases. A block may end on another arena's list; it
  // is given back by the arena that took it, so arenas that exchange tensors must die together.
  std::map<std::int64_t, std::vector<Free>> free_;
  std::vector<Tensor> taken_;
};

struct Arena::Books {
  std::int64_t live = 0;
  std::map<std::int64_t, std::vector<Free>> free;
};

}  // namespace weir

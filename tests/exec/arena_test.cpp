// Blocks of an arena when launches return before their work is done.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/arena.hpp"

#include <gtest/gtest.h>

#include "tests/exec/streams/async_stream.hpp"

namespace weir::arena_test {
namespace {

class CountingSource : public BlockSource {
 public:
  void* allocate(std::int64_t bytes) override {
    ++taken;
    return ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64});
  }
  void release(void* block, std::int64_t) noexcept override {
    ::operator delete (block, std::align_val_t{64});
  }
  int taken = 0;
};

class AsyncArena : public testing::Test {
 protected:
  void TearDown() override {  // what is queued writes to blocks that the arena gives back
    compute_.finish();
    lane_.finish();
  }
  std::shared_ptr<AsyncWorld> world_ = std::make_shared<AsyncWorld>(AsyncOptions{});
  AsyncStream compute_{world_, 0}, lane_{world_, 0};
  Event action_ = compute_.make_event(), copied_ = lane_.make_event();
  CountingSource source_;
  Arena arena_{source_};
};

// What a stream freed itself, it writes again without waiting: its order is enough.
TEST_F(AsyncArena, AStreamDoesNotWaitForItself) {
  arena_.begin_action(action_);
  Tensor first = arena_.allocate(100);
  std::byte* const block = first.data;
  arena_.release(first);
  EXPECT_EQ(arena_.allocate(128).data, block);  // both are 128 bytes
  EXPECT_EQ(world_->waits, 0);
  EXPECT_EQ(source_.taken, 1);
}

// Two blocks are being copied away: the first two requests take new ones, the next waits for the
// block that left first. Once a step has ended nothing is waited for, and after it no new block is
// taken while there is one to wait for.
TEST_F(AsyncArena, ABlockInTransitIsWaitedFor) {
  arena_.begin_action(action_);
  const Event later = lane_.make_event();
  lane_.record(copied_);
  lane_.record(later);
  Tensor one = arena_.allocate(64), two = arena_.allocate(64);
  std::byte* const oldest = one.data;
  std::byte* const other = two.data;
  arena_.release_after(one, copied_);
  EXPECT_NE(arena_.allocate(64).data, oldest);
  arena_.release_after(two, later);
  EXPECT_EQ(arena_.allocate(64).data, oldest);
  EXPECT_EQ(world_->waits, 1);
  EXPECT_EQ(source_.taken, 3);
  EXPECT_EQ(arena_.live().count(), 2 * 64);

  arena_.end_step();
  arena_.begin_action(action_);
  Tensor again = arena_.allocate(64);
  EXPECT_EQ(again.data, other);
  EXPECT_EQ(world_->waits, 1);
  arena_.release_after(again, later);
  EXPECT_EQ(arena_.allocate(64).data, other);
  EXPECT_EQ(world_->waits, 2);
  EXPECT_EQ(source_.taken, 3);
}

// A message is written by its edge's stream: after the action that used the block before.
TEST_F(AsyncArena, AnotherStreamWaitsForTheAction) {
  arena_.begin_action(action_);
  Tensor one = arena_.allocate(64);
  arena_.release(one);
  compute_.record(action_);
  arena_.end_step();  // from here no new blocks
  arena_.begin_action(action_);
  Tensor two = arena_.allocate(64);
  arena_.release(two);
  compute_.record(action_);
  static_cast<void>(arena_.allocate_for(64, lane_));
  EXPECT_EQ(world_->waits, 1);
  EXPECT_EQ(source_.taken, 1);
}

}  // namespace
}  // namespace weir::arena_test

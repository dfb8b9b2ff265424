// Blocks of fibers.
// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_cuda/emulation/device.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

thread_local EmulatedIndex threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

namespace weir::emulation {
namespace {

constexpr std::byte kPoison{0xFF};  // NaN in every format
constexpr int kWarpThreads = 32, kMostThreads = kWarpThreads * kWarpThreads;
constexpr unsigned kMostBlocks = 65535;  // in y and z
constexpr int kMostSharedBytes = 99 * 1024;
std::atomic<int> shared_asked = 48 * 1024;  // what a launch may have without saying so beforehand
constexpr std::size_t kStackBytes = 96 * 1024;

// The compiler's own jump: three registers, where the library's would ask what a thread that ends
// has to clean up.
using Jump = std::array<void*, 5>;

// swapcontext begins a fiber; from then on jumps are enough, and make no call of the system.
struct Fiber {
  ucontext_t context;
  Jump resume;
  bool begun = false;
  EmulatedIndex index;
  std::unique_ptr<std::byte[]> stack;  // as it comes: most of it is never touched
};
// Apart from the fibers, because the scheduler looks at all of a warp or a block.
struct State {
  bool running = false;
  Meeting waits_for = Meeting::none;
};

thread_local std::vector<Fiber> fibers(kMostThreads);
thread_local std::vector<State> states(kMostThreads);
thread_local std::vector<std::array<std::byte, kOfferedBytes>> offered(kMostThreads);
// Of the block's meeting that threads are coming to, and of the last.
thread_local bool some_say_so = false, some_said_so = false;
thread_local ucontext_t first_scheduler;
thread_local Jump scheduler;
thread_local int current = 0, count = 0;
thread_local const std::function<void()>* body = nullptr;
thread_local std::minstd_rand orders;             // seeded with 1: the same orders in every run
thread_local std::set<const void*> fresh_arrays;  // in shared memory, that this block has met
thread_local std::vector<std::byte> dynamic;

// Kernel after kernel.
// A function of its own: the compiler takes it that none jumps to a place of itself.
[[noreturn]] __attribute__((noinline)) void jump(Jump& to) { __builtin_longjmp(to.data(), 1); }

void leave(Fiber& own) {
  if (__builtin_setjmp(own.resume.data()) == 0) jump(scheduler);
}
void run_bodies() {
  const auto own = static_cast<std::size_t>(current);
  for (;;) {
    (*body)();
    states[own].running = false;
    leave(fibers[own]);
  }
}

// Comes back by a jump alone: a call that nothing may make a jump of, for what `resume` has saved
// lies on its stack.
[[noreturn]] void begin(Fiber& fiber) {
  fiber.begun = true;
  if (!fiber.stack) fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_bodies, 0);
  swapcontext(&first_scheduler, &fiber.context);
  std::abort();
}

void start(int thread) {
  Fiber& fiber = fibers[static_cast<std::size_t>(thread)];
  const auto t = static_cast<unsigned>(thread);
  fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
  states[static_cast<std::size_t>(thread)] = {true, Meeting::none};
}

// A warp that does not meet as one: the kernel is wrong, and its threads are not to be gone on
// with.
[[noreturn]] void give_up() {
  for (Fiber& fiber : fibers) fiber.begun = false;
  throw std::logic_error("a warp meets without some of its threads");
}

// Until the fiber meets or has returned.
void resume(Fiber& fiber) {
  if (__builtin_setjmp(scheduler.data()) != 0) return;
  if (fiber.begun) jump(fiber.resume);
  begin(fiber);
}

// From `first` to before `last`, in `room`.
std::span<const int> in_any_order(int first, int last, std::span<int> room) {
  const std::span<int> order = room.first(static_cast<std::size_t>(last - first));
  std::iota(order.begin(), order.end(), first);
  std::shuffle(order.begin(), order.end(), orders);
  return order;
}

// The threads of a warp, from meeting to meeting of the warp, until those that have not returned
// wait for the block.
void run_warp(std::span<const int> lanes) {
  // Looked up once: where a thread's own variables lie is a question each time.
  const std::span<State> state(states);
  const std::span<Fiber> fiber(fibers);
  for (;;) {
    for (const int thread : lanes) {
      const auto t = static_cast<std::size_t>(thread);
      if (!state[t].running || state[t].waits_for != Meeting::none) continue;
      current = thread;
      threadIdx = fiber[t].index;
      resume(fiber[t]);
    }
    std::size_t at_warp = 0;
    for (const int thread : lanes) {
      const State& own = state[static_cast<std::size_t>(thread)];
      at_warp += static_cast<std::size_t>(own.running && own.waits_for == Meeting::warp);
    }
    if (at_warp == 0) return;
    if (at_warp != lanes.size()) give_up();
    for (const int thread : lanes)
      state[static_cast<std::size_t>(thread)].waits_for = Meeting::none;
  }
}

// Warp after warp from one meeting of the block to the next, until all threads have returned.
void run_block() {
  fresh_arrays.clear();
  std::fill(dynamic.begin(), dynamic.end(), kPoison);
  for (int thread = 0; thread < count; ++thread) start(thread);
  std::array<int, kWarpThreads> warps, lanes;  // a block has no more warps than a warp has threads
  for (bool any = true; any;) {
    for (const int warp : in_any_order(0, (count + kWarpThreads - 1) / kWarpThreads, warps)) {
      const int first = warp * kWarpThreads;
      run_warp(in_any_order(first, std::min(first + kWarpThreads, count), lanes));
    }
    some_said_so = std::exchange(some_say_so, false);
    any = false;
    for (int thread = 0; thread < count; ++thread) {
      State& state = states[static_cast<std::size_t>(thread)];
      state.waits_for = Meeting::none;
      any = any || state.running;
    }
  }
}

}  // namespace

void run_blocks(dim3 grid, dim3 block, std::size_t shared_bytes,
                const std::function<void()>& kernel) {
  gridDim = grid;
  blockDim = block;
  body = &kernel;
  count = static_cast<int>(block.x * block.y * block.z);
  if (count < 1 || count > kMostThreads || grid.x < 1 || grid.y < 1 || grid.y > kMostBlocks ||
      grid.z > kMostBlocks || shared_bytes > static_cast<std::size_t>(shared_asked)) {
    throw std::logic_error("a launch that no device takes");
  }
  dynamic =
      std::vector<std::byte>(shared_bytes);  // to the byte, so that a sanitizer sees what is beyond
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
    }
  }
}

void meet(Meeting whom) {
  const auto own = static_cast<std::size_t>(current);
  states[own].waits_for = whom;
  leave(fibers[own]);
}
void poison_once_a_block(void* array, std::size_t bytes) {
  if (fresh_arrays.insert(array).second) std::memset(array, static_cast<int>(kPoison), bytes);
}
void* dynamic_shared() { return dynamic.data(); }
bool ask_shared(int bytes) {
  if (bytes > kMostSharedBytes) return false;
  if (bytes > shared_asked) shared_asked = bytes;
  return true;
}
int self() { return current; }
std::byte* offered_by(int thread) { return offered[static_cast<std::size_t>(thread)].data(); }
bool any_of_block(bool own) {
  some_say_so = some_say_so || own;
  meet(Meeting::block);
  return some_said_so;
}

}  // namespace weir::emulation

// Blocks of fibers.
// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_cuda/emulation/device.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csetjmp>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

thread_local EmulatedIndex threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

namespace weir::emulation {
namespace {

constexpr std::byte kPoison{0xFF};  // NaN in every format
constexpr int kMostThreads = 1024, kWarpThreads = 32;
constexpr unsigned kMostBlocks = 65535;  // in y and z
constexpr int kMostSharedBytes = 99 * 1024;
std::atomic<int> shared_asked = 48 * 1024;  // what a launch may have without saying so beforehand
constexpr std::size_t kStackBytes = 96 * 1024;

// swapcontext begins a fiber; from then on jumps are enough, and make no call of the system.
struct Fiber {
  ucontext_t context;
  jmp_buf resume;
  bool begun = false;
  EmulatedIndex index;
  bool running = false;
  Meeting waits_for = Meeting::none;
  std::array<std::byte, 16> offered;
  std::vector<std::byte> stack;
};

thread_local std::vector<Fiber> fibers(kMostThreads);
thread_local ucontext_t first_scheduler;
thread_local jmp_buf scheduler;
thread_local int current = 0, count = 0;
thread_local const std::function<void()>* body = nullptr;
thread_local std::minstd_rand orders;             // seeded with 1: the same orders in every run
thread_local std::set<const void*> fresh_arrays;  // in shared memory, that this block has met
thread_local std::vector<std::byte> dynamic;

// Kernel after kernel.
void run_bodies() {
  Fiber& own = fibers[static_cast<std::size_t>(current)];
  for (;;) {
    (*body)();
    own.running = false;
    if (_setjmp(own.resume) == 0) _longjmp(scheduler, 1);
  }
}

void begin(Fiber& fiber) {
  fiber.begun = true;
  fiber.stack.resize(kStackBytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, run_bodies, 0);
  swapcontext(&first_scheduler, &fiber.context);
}

void start(int thread) {
  Fiber& fiber = fibers[static_cast<std::size_t>(thread)];
  const auto t = static_cast<unsigned>(thread);
  fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
  fiber.running = true;
  fiber.waits_for = Meeting::none;
}

// A warp that does not meet as one: the kernel is wrong, and its threads are not to be gone on
// with.
[[noreturn]] void give_up() {
  for (Fiber& fiber : fibers) fiber.begun = false;
  throw std::logic_error("a warp meets without some of its threads");
}

// Until the fiber meets or has returned.
void resume(Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.resume, 1);
  begin(fiber);
}

std::vector<int> in_any_order(int first, int last) {
  std::vector<int> order;
  for (int i = first; i < last; ++i) order.push_back(i);
  std::shuffle(order.begin(), order.end(), orders);
  return order;
}

// The threads of a warp, from meeting to meeting of the warp, until those that have not returned
// wait for the block.
void run_warp(const std::vector<int>& lanes) {
  for (;;) {
    for (const int thread : lanes) {
      Fiber& fiber = fibers[static_cast<std::size_t>(thread)];
      if (!fiber.running || fiber.waits_for != Meeting::none) continue;
      current = thread;
      threadIdx = fiber.index;
      resume(fiber);
    }
    std::size_t at_warp = 0;
    for (const int thread : lanes) {
      const Fiber& fiber = fibers[static_cast<std::size_t>(thread)];
      at_warp += static_cast<std::size_t>(fiber.running && fiber.waits_for == Meeting::warp);
    }
    if (at_warp == 0) return;
    if (at_warp != lanes.size()) give_up();
    for (const int thread : lanes)
      fibers[static_cast<std::size_t>(thread)].waits_for = Meeting::none;
  }
}

// Warp after warp from one meeting of the block to the next, until all threads have returned.
void run_block() {
  fresh_arrays.clear();
  std::fill(dynamic.begin(), dynamic.end(), kPoison);
  for (int thread = 0; thread < count; ++thread) start(thread);
  for (bool any = true; any;) {
    for (const int warp : in_any_order(0, (count + kWarpThreads - 1) / kWarpThreads)) {
      run_warp(in_any_order(warp * kWarpThreads, std::min((warp + 1) * kWarpThreads, count)));
    }
    any = false;
    for (int thread = 0; thread < count; ++thread) {
      Fiber& fiber = fibers[static_cast<std::size_t>(thread)];
      fiber.waits_for = Meeting::none;
      any = any || fiber.running;
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
  Fiber& own = fibers[static_cast<std::size_t>(current)];
  own.waits_for = whom;
  if (_setjmp(own.resume) == 0) _longjmp(scheduler, 1);
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
int threads() { return count; }
bool running(int thread) { return fibers[static_cast<std::size_t>(thread)].running; }
void offer(const void* value, std::size_t bytes) {
  std::memcpy(fibers[static_cast<std::size_t>(current)].offered.data(), value, bytes);
}
void take(int thread, void* value, std::size_t bytes) {
  std::memcpy(value, fibers[static_cast<std::size_t>(thread)].offered.data(), bytes);
}

}  // namespace weir::emulation

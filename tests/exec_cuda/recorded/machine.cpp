// Queues, clocks and memory of the machine that is not there.
// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_cuda/recorded/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace weir::recorded {
namespace {

constexpr std::size_t kMemory = std::size_t{8} << 30;  // of addresses; pages come when touched
constexpr std::size_t kCellBytes = 4;
constexpr std::size_t kGap = 4096;  // between allocations: what runs over falls into it
constexpr std::size_t kPoisoned = std::size_t{4} << 20;
constexpr std::int64_t kOperation = 1000;  // ns that every operation takes
constexpr std::size_t kMostViolations = 20;
constexpr int kStuck = 20000;  // waits of a millisecond; not seconds: a machine may stand still

void* reserve(std::size_t bytes) {
  void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::runtime_error("no addresses for the recorded devices");
  return begin;
}

}  // namespace

// Who touched four bytes last. Times begin at 1; readers beyond one lie in readers_.
struct Machine::Cell {
  std::uint32_t written_by, written, read_by, read, more;
};

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

bool knows(const Clock& clock, std::uint32_t timeline, std::uint32_t count) {
  return count == 0 || (timeline < clock.size() && clock[timeline] >= count);
}

Machine::Machine() {
  memory_ = reinterpret_cast<std::uintptr_t>(reserve(kMemory));
  cells_ = static_cast<Cell*>(reserve(kMemory / kCellBytes * sizeof(Cell)));
  reset(1);
}

void Machine::reset(int count, unsigned seed) {
  const std::scoped_lock lock(mutex);
  const std::size_t used = next_ == 0 ? 0 : next_ - memory_;
  madvise(reinterpret_cast<void*>(memory_), used, MADV_DONTNEED);  // reads as zeros from now on
  madvise(cells_, used / kCellBytes * sizeof(Cell), MADV_DONTNEED);
  next_ = memory_;
  devices = count;
  faults = {};
  held.clear();
  calls = waits = launches = failures = 0;
  slow.clear();
  ran.clear();
  allocations_.clear();
  last_ = nullptr;
  streams_.clear();
  graphs_.clear();
  all_.clear();
  defaults_.clear();
  hosts_.clear();
  names_.clear();
  readers_.assign(1, {});
  violations_.clear();
  groups_.clear();
  primaries_.clear();
  orders_.seed(seed);
  for (int device = 0; device < count; ++device) {
    primaries_.push_back({device, -1});
    defaults_.push_back(make_stream(primaries_.back()));
  }
  current() = {};
}

void Machine::violation(const std::string& what) {
  if (violations_.size() < kMostViolations) violations_.push_back(what);
}

bool Machine::fails() {
  const bool fault = ++calls == faults.failing_call;
  failures += static_cast<int>(fault);
  return fault;
}

Context& Machine::make_group(int device, int multiprocessors) {
  return groups_.emplace_back(Context{device, static_cast<int>(groups_.size()), multiprocessors});
}

std::uint32_t Machine::new_timeline() {
  names_.emplace_back();
  return static_cast<std::uint32_t>(names_.size() - 1);
}

Stream* Machine::make_stream(Context& context) {
  Stream& stream = streams_.emplace_back();
  stream.context = &context;
  stream.timeline = new_timeline();
  all_.push_back(&stream);
  return &stream;
}

Stream* Machine::own_stream(Context& context) {
  auto* stream = new Stream;  // a graph's unique_ptr takes it
  stream->context = &context;
  stream->timeline = new_timeline();
  all_.push_back(stream);
  return stream;
}

Stream* Machine::find(void* handle, int device) {
  if (handle == nullptr) return defaults_.at(static_cast<std::size_t>(device));
  auto* stream = static_cast<Stream*>(handle);
  if (std::find(all_.begin(), all_.end(), stream) != all_.end()) return stream;
  violation("a stream that is no more is used");
  return nullptr;
}

// What is queued is still done, as CUDA does it.
void Machine::end_stream(Stream* stream) {
  static_cast<void>(finish(*stream));
  for (const auto& [handle, of_handle] : held) {
    if (of_handle == stream) violation("a stream ends that a library's handle still has");
  }
  std::erase(all_, stream);
  streams_.remove_if([stream](const Stream& one) { return &one == stream; });
}

void Machine::put(Stream& stream, Operation operation) {
  operation.launched = std::make_shared<const Clock>(host_clock());
  ++launches;
  stream.queue.push_back(std::move(operation));
  changed.notify_all();
}

bool Machine::ready(Stream& stream) {
  if (stream.queue.empty()) return false;
  Operation& head = stream.queue.front();
  if (head.waits && !head.waits->reached) return false;
  if (!head.meeting) return true;
  begin(stream, head);
  running_ = &stream;
  const bool all_there = head.meeting->arrive(stream);
  running_ = nullptr;
  return all_there;
}

void Machine::begin(Stream& stream, Operation& operation) {
  join(stream.clock, *operation.launched);
  if (operation.begun || operation.waits || operation.records) return;
  operation.begun = true;
  if (stream.clock.size() <= stream.timeline) stream.clock.resize(stream.timeline + 1);
  ++stream.clock[stream.timeline];
  names_[stream.timeline].push_back(operation.what);
}

void Machine::run(Stream& stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  begin(stream, operation);
  if (operation.waits) {
    join(stream.clock, operation.waits->clock);
    stream.time = std::max(stream.time, operation.waits->time);
    return;
  }
  if (operation.records) {
    operation.records->clock = stream.clock;
    operation.records->time = stream.time;
    operation.records->reached = true;
    return;
  }
  stream.time += kOperation;
  operation.kinds.push_back(operation.what);
  for (const std::string& kind : operation.kinds) {
    ++ran[kind];
    if (const auto found = slow.find(kind); found != slow.end()) stream.time += found->second;
  }
  running_ = &stream;
  try {
    if (operation.meeting) operation.meeting->finish(stream);
    if (operation.work) operation.work();
  } catch (const std::exception& failed) {
    violation(operation.what + ": " + failed.what());
  }
  running_ = nullptr;
}

bool Machine::progress() {
  if (running_ != nullptr) throw std::logic_error("work waits for work");
  std::vector<Stream*> order = all_;
  std::shuffle(order.begin(), order.end(), orders_);
  for (Stream* stream : order) {
    if (!ready(*stream)) continue;
    run(*stream);
    return true;
  }
  return false;
}

bool Machine::finish(Stream& stream) {
  int waits_in_vain = 0;
  // Another thread may end the stream while this one waits and the mutex is free.
  const auto lives = [&] { return std::find(all_.begin(), all_.end(), &stream) != all_.end(); };
  while (lives() && !stream.queue.empty()) {
    if (progress()) {
      waits_in_vain = 0;
      continue;
    }
    // What another thread will launch may be missing.
    if (++waits_in_vain > kStuck) {
      violation("nothing runs any more: " + stream.queue.front().what + " waits");
      return false;
    }
    changed.wait_for(mutex, std::chrono::milliseconds(1));
  }
  if (lives()) join(host_clock(), stream.clock);
  return true;
}

bool Machine::finish_all() {
  for (Stream* stream : std::vector<Stream*>(all_)) {
    if (!finish(*stream)) return false;
  }
  return true;
}

void* Machine::allocate(std::size_t bytes, int device, Pool* pool) {
  const std::uintptr_t begin = next_;
  next_ += (bytes + 255) / 256 * 256 + kGap;
  if (next_ > memory_ + kMemory) throw std::runtime_error("the recorded devices are full");
  allocations_[begin] = {begin, bytes, device, pool};
  // NaN in every format; the large scratch memory of libraries is left alone.
  std::memset(reinterpret_cast<void*>(begin), 0xFF, std::min(bytes, kPoisoned));
  if (pool != nullptr) {
    pool->used += bytes;
    pool->most = std::max(pool->most, pool->used);
  }
  return reinterpret_cast<void*>(begin);
}

Allocation* Machine::allocation_of(std::uintptr_t address) {
  if (last_ != nullptr && address - last_->begin < last_->bytes) return last_;
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation& before = std::prev(after)->second;
  if (address - before.begin >= before.bytes) return nullptr;
  return last_ = &before;
}

Machine::Cell* Machine::cell_of(std::uintptr_t address) {
  return cells_ + (address - memory_) / kCellBytes;
}

void Machine::race(const char* does, std::uintptr_t address, std::uint32_t timeline,
                   std::uint32_t count) {
  const Allocation* allocation = allocation_of(address);
  violation(names_[running_->timeline].back() + does + names_[timeline][count - 1] +
            ", and no event orders the two (byte " +
            std::to_string(address - std::min(address, allocation->begin)) + " of " +
            std::to_string(allocation->bytes) + ")");
}

void Machine::free(Allocation& allocation) {
  if (!allocation.live) return violation("memory is freed twice");
  touch(allocation.begin, allocation.bytes, Use::release);
  allocation.live = false;
  if (allocation.pool != nullptr) static_cast<Pool*>(allocation.pool)->used -= allocation.bytes;
}

void Machine::give(Allocation& allocation) const {
  allocation.given_by = running_->timeline;
  allocation.given = running_->clock[running_->timeline];
}

void Machine::touch(std::uintptr_t address, std::size_t bytes, Use use) {
  if (running_ == nullptr || address - memory_ >= kMemory || bytes == 0) return;
  const std::string& what = names_[running_->timeline].back();
  Allocation* allocation = allocation_of(address);
  if (allocation == nullptr || address + bytes > allocation->begin + allocation->bytes)
    return violation(what + " reaches beyond its memory");
  if (!allocation->live) return violation(what + " uses memory that was freed");
  const int device = running_->context->device;
  if (allocation->device != device && allocation->pool != nullptr &&
      !static_cast<Pool*>(allocation->pool)->reach.contains(device)) {
    return violation(what + " uses memory of a device that it does not reach");
  }
  const Clock& clock = running_->clock;
  if (!knows(clock, allocation->given_by, allocation->given))
    return violation(what + " uses memory that its stream was not given yet");
  const std::uint32_t own = running_->timeline, now = clock[own];
  Cell* const last = cell_of(address + bytes - 1);
  for (Cell* cell = cell_of(address); cell <= last; ++cell) {
    const std::uintptr_t at = memory_ + static_cast<std::size_t>(cell - cells_) * kCellBytes;
    const auto [written_by, written, read_by, read, more] = *cell;
    if (!knows(clock, written_by, written)) {
      return race(
          use == Use::read ? " reads what is written by " : " overwrites what is written by ", at,
          written_by, written);
    }
    if (use == Use::read) {
      note_reader(*cell, own, now);
      continue;
    }
    if (!knows(clock, read_by, read))
      return race(" overwrites what is read by ", at, read_by, read);
    for (const auto& [by, count] : readers_[more]) {
      if (!knows(clock, by, count)) return race(" overwrites what is read by ", at, by, count);
    }
    if (use == Use::release) continue;
    if (more != 0) readers_[more].clear();
    *cell = {own, now, 0, 0, more};
  }
}

// One reader in the cell, where those before are known to be done; else in a list of its own.
void Machine::note_reader(Cell& cell, std::uint32_t timeline, std::uint32_t count) {
  if (cell.read_by == timeline || knows(running_->clock, cell.read_by, cell.read)) {
    cell.read_by = timeline;
    cell.read = count;
    return;
  }
  if (cell.more == 0) {
    cell.more = static_cast<std::uint32_t>(readers_.size());
    readers_.emplace_back();
  }
  auto& readers = readers_[cell.more];
  if (readers.empty() || readers.back() != std::pair(timeline, count))
    readers.emplace_back(timeline, count);
}

Machine& machine() {
  static Machine one;
  return one;
}

Current& current() {
  thread_local Current of_this_thread;
  return of_this_thread;
}

}  // namespace weir::recorded

// A machine with GPUs that are not there: what the stand-ins for cudart, the driver, cuBLASLt,
// cuDNN and NCCL (the other files of this folder) record, run and check. Work lies in its stream's
// queue until somebody waits, and then the streams' heads run in an order drawn anew each time; the
// kernels are those of tests/exec_cuda/emulation, on the host.
//
// Order is checked, not hoped for: every operation has a vector clock, every four bytes of device
// memory remember who wrote and who read them last, and a read or write that no chain of streams
// and events puts behind those before it is a violation, in whichever order the two happened to
// run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace weir::recorded {

// By timeline (a stream, or a branch of a graph): how many of its operations are known to be done.
using Clock = std::vector<std::uint32_t>;
void join(Clock& into, const Clock& other);
[[nodiscard]] bool knows(const Clock& clock, std::uint32_t timeline, std::uint32_t count);

// Where work runs: a device's primary context, or that of a group of its multiprocessors.
struct Context {
  int device = 0;
  int group = -1;  // -1: primary
  int multiprocessors = 132;
};

struct Graph;

// What an event stands for after it was recorded.
struct Mark {
  bool reached = false;
  Clock clock;            // of the operations before it; while captured, by branch
  std::int64_t time = 0;  // ns
  Graph* captured = nullptr;
};

struct Event {
  int device = 0;
  bool timing = true;
  std::shared_ptr<Mark> mark;  // null: never recorded
};

struct Stream;

// What several streams must reach before any of them goes on.
class Meeting {
 public:
  virtual ~Meeting() = default;
  [[nodiscard]] virtual std::shared_ptr<Meeting> copy() const = 0;
  // At the head of its stream: whether all the others are there.
  [[nodiscard]] virtual bool arrive(Stream& stream) = 0;
  // All are there, and it is this stream's turn.
  virtual void finish(Stream& stream) = 0;
};

struct Operation {
  std::string what;
  std::function<void()> work;             // may be empty
  std::shared_ptr<Mark> records, waits;   // one of them, or none
  Event* external = nullptr;              // recorded by a node of a graph
  std::shared_ptr<Meeting> meeting;       // may be null
  std::vector<std::string> kinds;         // further names by which it is slow
  std::shared_ptr<const Clock> launched;  // what the host knew
  bool begun = false;                     // counted by its stream's clock
};

struct Stream {
  Context* context = nullptr;
  std::uint32_t timeline = 0;
  Clock clock;
  std::int64_t time = 0;
  std::deque<Operation> queue;
  Graph* capture = nullptr;
  std::size_t branch = 0;
};

struct Graph {
  struct Node {
    std::size_t branch;
    Operation operation;
  };
  std::vector<Node> nodes;
  bool capturing = false;
  std::vector<Clock> clocks;                      // of each branch, while it is captured
  std::vector<Stream*> members;                   // the captured streams, the origin first
  std::vector<std::unique_ptr<Stream>> branches;  // of an executable graph
};

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  int device = 0;
  void* pool = nullptr;
  bool live = true;
  std::uint32_t given_by = 0, given = 0;  // the operation behind which it may be used
};

struct Pool {
  int device = 0;
  std::set<int> reach;  // other devices that may use it
  std::size_t used = 0, most = 0;
};

// What goes wrong on purpose. Counted from 1; 0: nothing.
struct Faults {
  std::int64_t failing_call = 0;  // which call of a library fails
  std::int64_t dropped_wait = 0;  // which cudaStreamWaitEvent is forgotten
  // cublasLtMatmulAlgoCheck refuses this algorithm (-1: every); the heuristic knows none for more
  // multiprocessors than so many.
  int refused_algorithm = 0, most_multiprocessors = 0;
  // The driver makes no group of more multiprocessors, as on a device with uneven clusters.
  unsigned largest_group = 0;
  bool absent_libraries = false;  // there is no cuDNN and no NCCL
  int nccl = 22809;               // its version; from 23000 on ranks may share a device
  // What is refused of a capture: its begin, a product or a kernel in it, its end, or the graph.
  enum class Capture : std::uint8_t { none, begin, product, launch, end, instantiate };
  Capture capture = Capture::none;
};

class Machine {
 public:
  Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // As new, with so many devices. Nothing of before may be used any more.
  void reset(int devices, unsigned seed = 1);

  std::recursive_mutex mutex;  // held by every call and while work runs
  std::condition_variable_any changed;
  Faults faults;
  int devices = 1;
  std::map<void*, Stream*> held;  // by handles of libraries: the stream that each uses next
  std::int64_t calls = 0, waits = 0, launches = 0, failures = 0;
  // ns that an operation takes more than others, by its name; of products also by "algorithm 2" and
  // "epilogue 4".
  std::map<std::string, std::int64_t> slow;
  std::map<std::string, std::int64_t> ran;  // operations that have run, by the same names

  void violation(const std::string& what);
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }

  void forget() { violations_.clear(); }

  // Counts a call; whether it is the one to fail.
  [[nodiscard]] bool fails();

  [[nodiscard]] Context& primary(int device) {
    return primaries_.at(static_cast<std::size_t>(device));
  }
  [[nodiscard]] Context& make_group(int device, int multiprocessors);
  [[nodiscard]] Stream* make_stream(Context& context);
  [[nodiscard]] Stream* own_stream(Context& context);    // of a graph: the graph's to keep
  [[nodiscard]] Stream* find(void* handle, int device);  // null: the device's default stream
  void end_stream(Stream* stream);
  [[nodiscard]] Graph& make_graph() { return graphs_.emplace_back(); }  // for as long as the test
  void put(Stream& stream, Operation operation);
  // Runs what can run until the stream is empty; false: it never will be.
  [[nodiscard]] bool finish(Stream& stream);
  [[nodiscard]] bool finish_all();
  // Runs one operation of any stream; false: none can.
  bool progress();
  [[nodiscard]] Clock& host_clock() { return hosts_[std::this_thread::get_id()]; }

  [[nodiscard]] void* allocate(std::size_t bytes, int device, Pool* pool);
  // The live or dead allocation that holds the address; null: none does.
  [[nodiscard]] Allocation* allocation_of(std::uintptr_t address);
  // At this place of the running operation's order.
  void free(Allocation& allocation);
  // The running operation is the one behind which it may be used.
  void give(Allocation& allocation) const;
  // What the running operation does to memory; other than device memory is nobody's business.
  enum class Use : std::uint8_t { read, write, release };
  void touch(std::uintptr_t address, std::size_t bytes, Use use);
  void reads(const void* data, std::size_t bytes) {
    touch(reinterpret_cast<std::uintptr_t>(data), bytes, Use::read);
  }
  void writes(const void* data, std::size_t bytes) {
    touch(reinterpret_cast<std::uintptr_t>(data), bytes, Use::write);
  }

 private:
  struct Cell;
  [[nodiscard]] Cell* cell_of(std::uintptr_t address);
  void begin(Stream& stream, Operation& operation);
  void run(Stream& stream);
  [[nodiscard]] bool ready(Stream& stream);
  void note_reader(Cell& cell, std::uint32_t timeline, std::uint32_t count);
  void race(const char* does, std::uintptr_t address, std::uint32_t timeline, std::uint32_t count);
  [[nodiscard]] std::uint32_t new_timeline();

  std::uintptr_t memory_ = 0, next_ = 0;  // device memory of all devices, never given out twice
  Cell* cells_ = nullptr;
  std::map<std::uintptr_t, Allocation> allocations_;
  Allocation* last_ = nullptr;  // that was found
  std::deque<Context> primaries_, groups_;
  std::list<Stream> streams_;
  std::list<Graph> graphs_;
  std::vector<Stream*> all_;  // of graphs too
  std::vector<Stream*> defaults_;
  std::map<std::thread::id, Clock> hosts_;
  std::vector<std::vector<std::string>> names_;  // of each timeline's operations
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> readers_;  // of one cell each
  std::vector<std::string> violations_;
  std::minstd_rand orders_;
  Stream* running_ = nullptr;
};

[[nodiscard]] Machine& machine();

// Of this thread.
struct Current {
  int device = 0;
  std::vector<Context*> pushed;
  int error = 0;
  bool captures = false;
};
[[nodiscard]] Current& current();

}  // namespace weir::recorded

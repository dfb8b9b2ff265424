// NCCL between threads: an end of a message begins when it is at the head of its stream, and goes
// on when the other has begun too. Counts of the two ends must agree.
// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "exec/nccl/nccl_library.hpp"
#include "plan/words/error.hpp"
#include "tests/exec_cuda/recorded/calls.hpp"
#include "tests/exec_cuda/recorded/communicators.hpp"

using namespace weir::recorded;

namespace {

#define WEIR_NCCL_CALL() WEIR_CALL_OR(ncclSystemError)

// The k-th message from a member to another.
struct Part {
  bool sent = false, received = false;
  std::size_t bytes = 0;
  std::vector<std::byte> data;
  Clock sender, receiver;
};

// What the members of one communicator share.
struct Members {
  int count = 0, joined = 0;
  bool aborted = false;
  std::set<int> devices;
  std::map<std::array<int, 2>, std::map<std::uint64_t, Part>> messages;  // by from, to
  std::map<std::array<int, 2>, std::uint64_t> sends, receives;
};

struct Communicator {
  std::shared_ptr<Members> members;
  int own = 0;
  int device = 0;
  bool ended = false, aborted = false;
};

struct Call {
  enum class Kind : std::uint8_t { send, receive } kind;
  std::shared_ptr<Communicator> of;
  int peer = 0;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
};

// All parts of a group, on one stream.
class Group : public Meeting {
 public:
  std::vector<Call> calls;
  [[nodiscard]] std::shared_ptr<Meeting> copy() const override {
    auto other = std::make_shared<Group>();
    other->calls = calls;
    return other;
  }
  [[nodiscard]] bool arrive(Stream& stream) override {
    if (!begun_) {
      for (const Call& call : calls) numbers_.push_back(begin(call, stream));
      begun_ = true;
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].of->aborted && !complete(calls[i], numbers_[i])) return false;
    }
    return true;
  }
  // All are there: what they bring is written, and their clocks are known. What was aborted holds
  // its stream up no longer, and brings nothing.
  void finish(Stream& stream) override {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].of->aborted) end(calls[i], numbers_[i], stream);
    }
  }

 private:
  static std::uint64_t begin(const Call& call, const Stream& stream) {
    Members& all = *call.of->members;
    const int own = call.of->own;
    if (call.kind == Call::Kind::send) {
      const std::uint64_t number = all.sends[{own, call.peer}]++;
      Part& part = all.messages[{own, call.peer}][number];
      take(call, part, stream);
      if (part.received && part.bytes != call.bytes)
        machine().violation("the two ends of a message have different counts");
      part.bytes = call.bytes;
      part.sent = true;
      return number;
    }
    const std::uint64_t number = all.receives[{call.peer, own}]++;
    Part& part = all.messages[{call.peer, own}][number];
    part.receiver = stream.clock;
    if (part.sent && part.bytes != call.bytes)
      machine().violation("the two ends of a message have different counts");
    part.bytes = call.bytes;
    part.received = true;
    return number;
  }
  static void take(const Call& call, Part& part, const Stream& stream) {
    machine().reads(call.from, call.bytes);
    part.data.assign(call.from, call.from + call.bytes);
    part.sender = stream.clock;
  }
  static bool complete(const Call& call, std::uint64_t number) {
    Members& all = *call.of->members;
    const bool out = call.kind == Call::Kind::send;
    const Part& part = all.messages[out ? std::array{call.of->own, call.peer}
                                        : std::array{call.peer, call.of->own}][number];
    return part.sent && part.received;
  }
  static void end(const Call& call, std::uint64_t number, Stream& stream) {
    Members& all = *call.of->members;
    if (call.kind == Call::Kind::send)
      return join(stream.clock, all.messages[{call.of->own, call.peer}][number].receiver);
    const Part& part = all.messages[{call.peer, call.of->own}][number];
    join(stream.clock, part.sender);
    machine().writes(call.to, call.bytes);
    std::memcpy(call.to, part.data.data(), std::min(call.bytes, part.data.size()));
  }

  bool begun_ = false;
  std::vector<std::uint64_t> numbers_;
};

struct Open {
  int depth = 0;
  std::vector<std::pair<Stream*, Call>> calls;
};
thread_local Open group;

std::int64_t cut_short = 0;

std::map<std::uint64_t, std::shared_ptr<Members>>& rendezvous() {
  static std::map<std::uint64_t, std::shared_ptr<Members>> all;
  return all;
}
std::shared_ptr<Communicator>& of(ncclComm_t handle) {
  return *reinterpret_cast<std::shared_ptr<Communicator>*>(handle);
}

ncclResult_t launch() {
  std::map<Stream*, std::shared_ptr<Group>> by_stream;
  for (auto& [stream, call] : group.calls) {
    auto& own = by_stream[stream];
    if (!own) own = std::make_shared<Group>();
    own->calls.push_back(call);
  }
  group.calls.clear();
  for (auto& [stream, own] : by_stream) {
    Stream* const on = stream;
    put(*on, {.what = "a message", .meeting = own});
  }
  return ncclSuccess;
}

ncclResult_t add(Call call, ncclComm_t handle, cudaStream_t on) {
  call.of = of(handle);
  if (call.of->ended) {
    machine().violation("a communicator that is no more is used");
    return ncclInvalidUsage;
  }
  Stream* stream = stream_here(on, "a message");
  if (stream == nullptr || stream->context->device != call.of->device) {
    machine().violation("a communicator is used on another device's stream");
    return ncclInvalidUsage;
  }
  group.calls.emplace_back(stream, std::move(call));
  return group.depth == 0 ? launch() : ncclSuccess;
}

}  // namespace

namespace weir::recorded {
std::int64_t aborted_communicators() { return cut_short; }
}  // namespace weir::recorded

// In the place of exec/nccl/nccl_library.cpp, as the functions below.
namespace weir {
std::string nccl_missing() {
  return machine().faults.absent_libraries ? "no libnccl.so.2 on this machine" : "";
}
void require_nccl() {
  if (const std::string why = nccl_missing(); !why.empty())
    throw MissingComponent("messages over NCCL: " + why);
}
}  // namespace weir

extern "C" {
ncclResult_t ncclGetVersion(int* version) {
  *version = machine().faults.nccl;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error of the recorded NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  WEIR_NCCL_CALL();
  static std::uint64_t next = 0;
  *id = {};
  ++next;
  std::memcpy(id->internal, &next, sizeof(next));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int count, ncclUniqueId id, int own,
                                    ncclConfig_t*) {
  *made = nullptr;
  WEIR_NCCL_CALL();
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  std::shared_ptr<Members>& members = rendezvous()[number];
  if (!members) members = std::make_shared<Members>();
  members->count = count;
  ++members->joined;
  const bool alone = members->devices.insert(current().device).second;
  if (!alone && (machine().faults.nccl < 23000 || getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr))
    return ncclInvalidUsage;
  *made = reinterpret_cast<ncclComm_t>(new std::shared_ptr<Communicator>(
      std::make_shared<Communicator>(Communicator{members, own, current().device})));
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  WEIR_NCCL_CALL();
  const Members& members = *of(handle)->members;
  *error = members.aborted                  ? ncclRemoteError
           : members.joined < members.count ? ncclInProgress
                                            : ncclSuccess;
  return ncclSuccess;
}
// Who waits for the member that is gone waits in vain, and learns it.
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const std::scoped_lock lock(machine().mutex);
  if (!of(handle)->ended) {
    of(handle)->members->aborted = of(handle)->ended = true;
    ++cut_short;
  }
  of(handle)->aborted = true;
  delete &of(handle);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  WEIR_NCCL_CALL();
  while (machine().progress()) {  // what is under way is done first
  }
  of(handle)->ended = true;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const std::scoped_lock lock(machine().mutex);
  delete &of(handle);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  WEIR_NCCL_CALL();
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const std::scoped_lock lock(machine().mutex);
  if (--group.depth > 0) return ncclSuccess;
  if (machine().fails()) {
    group.calls.clear();
    return ncclSystemError;
  }
  return launch();
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  WEIR_NCCL_CALL();
  return add({.kind = Call::Kind::send,
              .of = {},
              .peer = peer,
              .from = static_cast<const std::byte*>(from),
              .to = nullptr,
              .bytes = count},
             handle, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  WEIR_NCCL_CALL();
  return add({.kind = Call::Kind::receive,
              .of = {},
              .peer = peer,
              .from = nullptr,
              .to = static_cast<std::byte*>(to),
              .bytes = count},
             handle, stream);
}
}

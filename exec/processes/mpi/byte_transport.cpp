// Bytes over MPI: non-blocking sends and receives, found done by asking.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/mpi/byte_transport.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "exec/processes/mpi/mpi_check.hpp"
#include "exec/processes/mpi/mpi_facts.hpp"

namespace weir {
namespace {

constexpr std::size_t kBlock = std::size_t{1}
                               << 30;  // counts are ints: more bytes go as blocks and a rest

// The type of a message of so many bytes, and how many of it there are.
class MessageType {
 public:
  explicit MessageType(std::size_t bytes) {
    // MPI counts in int. What is longer is one element of a type that is made of blocks.
    if (bytes <= kBlock) {
      count_ = static_cast<int>(bytes);
      return;
    }
    MPI_Datatype block = MPI_DATATYPE_NULL;
    WEIR_MPI_CHECK(MPI_Type_contiguous(static_cast<int>(kBlock), MPI_BYTE, &block));
    int lengths[] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes / kBlock * kBlock)};
    MPI_Datatype types[] = {block, MPI_BYTE};
    WEIR_MPI_CHECK(MPI_Type_create_struct(2, lengths, places, types, &type_));
    WEIR_MPI_CHECK(MPI_Type_free(&block));
    WEIR_MPI_CHECK(MPI_Type_commit(&type_));
    count_ = 1;
  }
  MessageType(const MessageType&) = delete;
  MessageType& operator=(const MessageType&) = delete;
  ~MessageType() {  // messages under way keep what they need of it
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

// Calls `late` unless it has been destroyed within the limit.
class PatienceWatch {
 public:
  explicit PatienceWatch(const ByteTransport::Patience& patience)
      : thread_([this, patience] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, patience.limit, [this] { return done_; })) patience.late();
        }) {}
  PatienceWatch(const PatienceWatch&) = delete;
  PatienceWatch& operator=(const PatienceWatch&) = delete;
  ~PatienceWatch() {
    {
      const std::scoped_lock lock(mutex_);  // `done_` is the thread's, too
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace

ByteTransport::ByteTransport(const Patience& patience) {
  // MPI_Init and MPI_Comm_dup return when all processes have called them: one that never does would
  // hold the others for ever.
  const PatienceWatch watch(patience);
  int level = MPI_THREAD_SINGLE;
  WEIR_MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level));
  if (level < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw RunFailed(
        "this MPI does not let several threads call it in turn (MPI_THREAD_SERIALIZED)");
  }
  WEIR_MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  WEIR_MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &index_));
  WEIR_MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &count_));
  for (MPI_Comm& comm : comms_) WEIR_MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
}

std::string ByteTransport::description() { return mpi_facts().version; }

ByteTransport::Request ByteTransport::open() {
  if (free_.empty()) {
    requests_.push_back(MPI_REQUEST_NULL);
    return static_cast<Request>(requests_.size()) - 1;
  }
  const Request request = free_.back();
  free_.pop_back();
  return request;
}

ByteTransport::Request ByteTransport::start_send(int to, Channel channel, int tag,
                                                 std::span<const std::byte> data) {
  const MessageType message(data.size());
  const Request request = open();
  WEIR_MPI_CHECK(MPI_Isend(data.data(), message.count(), message.type(), to, tag, comm(channel),
                           &requests_[static_cast<std::size_t>(request)]));
  return request;
}

ByteTransport::Request ByteTransport::start_receive(int from, Channel channel, int tag,
                                                    std::span<std::byte> data) {
  const MessageType message(data.size());
  const Request request = open();
  WEIR_MPI_CHECK(MPI_Irecv(data.data(), message.count(), message.type(), from, tag, comm(channel),
                           &requests_[static_cast<std::size_t>(request)]));
  return request;
}

bool ByteTransport::done(Request request) {
  int done = 0;
  WEIR_MPI_CHECK(MPI_Test(&requests_[static_cast<std::size_t>(request)], &done, MPI_STATUS_IGNORE));
  if (done != 0) free_.push_back(request);
  return done != 0;
}

std::optional<ByteTransport::Arrival> ByteTransport::arrival(Channel channel) {
  int there = 0;
  MPI_Status status;
  WEIR_MPI_CHECK(
      MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm(channel), &there, &arrived_, &status));
  if (there == 0) return std::nullopt;
  MPI_Count bytes = 0;
  WEIR_MPI_CHECK(MPI_Get_elements_x(&status, MPI_BYTE, &bytes));
  return Arrival{status.MPI_SOURCE, status.MPI_TAG, static_cast<std::size_t>(bytes)};
}

ByteTransport::Request ByteTransport::take(std::span<std::byte> data) {
  const MessageType message(data.size());
  const Request request = open();
  WEIR_MPI_CHECK(MPI_Imrecv(data.data(), message.count(), message.type(), &arrived_,
                            &requests_[static_cast<std::size_t>(request)]));
  return request;
}

void ByteTransport::leave(const Patience& patience) {
  const PatienceWatch watch(patience);  // it returns when all have come to it
  MPI_Finalize();
}

void ByteTransport::abandon(int code, const Patience& patience) {
  const PatienceWatch watch(patience);
  MPI_Abort(MPI_COMM_WORLD, code);
}

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#include "exec/mpi/mpi_processes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "exec/mpi/mpi_check.hpp"
#include "exec/mpi/mpi_facts.hpp"
#include "exec/mpi/mpi_places.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

enum ControlTag : int { kSign = 1, kNotice, kVerdict };
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;  // of one MPI message, whose count is an int
// Between two looks while the main thread computes, on whose core the courier runs. A look costs some 20 us there: on a
// virtual machine with two cores steps took 1.65 times as long with rests of 50 us, and no longer with these
// (gpt2-mini, K = 1 and 2). Messages wait so long only where the receiver is busy anyway; who waits for one polls
// himself.
constexpr auto kCourierRest = 2ms;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch() / 1ns; }

}  // namespace

MpiProcesses::MpiProcesses(Options options) : options_(std::move(options)) {
  int level = MPI_THREAD_SINGLE;
  WEIR_MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level));
  if (level < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    throw RunFailed("this MPI does not let several threads call it in turn (MPI_THREAD_SERIALIZED)");
  }
  WEIR_MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  WEIR_MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &index_));
  WEIR_MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &count_));
  for (MPI_Comm* comm : {&messages_, &control_, &edges_, &credits_}) {
    WEIR_MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, comm));
  }
  MpiPlaces found = mpi_places(MPI_COMM_WORLD);
  places_ = std::move(found.places);
  oversubscribed_ = found.oversubscribed;
  polled_ns_ = heard_ns_ = now();
  courier_ = std::thread([this] { run_courier(); });
}

MpiProcesses::~MpiProcesses() {
  if (!concluded_) {
    try {
      barrier();
    } catch (...) {
      // Another process failed after this one was done: it and the leader say so.
    }
    const std::scoped_lock lock(mutex_);
    leave();
  }
  closing_ = true;
  courier_.join();
}

std::string MpiProcesses::description() const { return mpi_facts().version; }

Processes::Ticket MpiProcesses::start_send(int to, int tag, std::span<const std::byte> data) {
  const std::scoped_lock lock(mutex_);
  std::vector<MPI_Request>& parts = requests_[next_ticket_];
  do {
    const auto part = data.first(std::min(data.size(), static_cast<std::size_t>(kMostBytes)));
    parts.emplace_back();
    WEIR_MPI_CHECK(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to, tag, messages_, &parts.back()));
    data = data.subspan(part.size());
  } while (!data.empty());
  return next_ticket_++;
}

Processes::Ticket MpiProcesses::start_receive(int from, int tag, std::span<std::byte> data) {
  const std::scoped_lock lock(mutex_);
  std::vector<MPI_Request>& parts = requests_[next_ticket_];
  do {
    const auto part = data.first(std::min(data.size(), static_cast<std::size_t>(kMostBytes)));
    parts.emplace_back();
    WEIR_MPI_CHECK(
        MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from, tag, messages_, &parts.back()));
    data = data.subspan(part.size());
  } while (!data.empty());
  return next_ticket_++;
}

void MpiProcesses::wait(Ticket ticket) {
  wait_until([&] {
    std::vector<MPI_Request>& parts = requests_.at(ticket);
    int done = 0;
    WEIR_MPI_CHECK(MPI_Testall(static_cast<int>(parts.size()), parts.data(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) requests_.erase(ticket);
    return done != 0;
  });
}

void MpiProcesses::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::scoped_lock lock(mutex_);
    WEIR_MPI_CHECK(MPI_Ibarrier(messages_, &request));
  }
  wait_until([&] {
    int done = 0;
    WEIR_MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  });
}

void MpiProcesses::on_poll(std::function<void()> progress) {
  const std::scoped_lock lock(mutex_);
  progress_ = std::move(progress);
}

void MpiProcesses::wait_until(const std::function<bool()>& ready) {
  waiting_ = true;
  for (int round = 0;; ++round) {
    {
      const std::scoped_lock lock(mutex_);
      poll();
      if (stopped()) {
        waiting_ = false;
        throw Transport::Stopped{};
      }
      if (ready()) break;
    }
    rest(round);
  }
  waiting_ = false;
}

// A core of one's own may be burnt by waiting; a shared one is left, for longer and longer.
void MpiProcesses::rest(int round) const {
  if (!oversubscribed_) {
    if (round > 100) std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::min(10us * (1 + round / 8), 200us));
  }
}

// Moves messages while the main thread computes. It polls: MPI has no way to wait for several things without burning a
// core.
void MpiProcesses::run_courier() {
  while (!closing_) {
    std::this_thread::sleep_for(kCourierRest);
    if (waiting_) continue;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || left_) continue;
    try {
      poll();
    } catch (...) {
      if (!failure_) failure_ = {ending_of(std::current_exception()), false};
    }
  }
}

void MpiProcesses::poll() {
  const std::int64_t time = now();
  const std::int64_t patience = options_.patience / 1ns;
  // Who was held up himself cannot know who was silent meanwhile.
  if (time - polled_ns_ > patience / 4) heard_ns_ += time - polled_ns_;
  polled_ns_ = time;
  read_control();
  if (progress_ && !stopped()) progress_();
  if (count_ == 1) return;
  if (time - gave_sign_ns_ > patience / 10) give_sign();
  if (time - heard_ns_ > patience && !stopped()) {
    const int silent = (index_ + count_ - 1) % count_;
    failure_ = {{6, fmt::format("process {} on {} has given no sign of life for {:.1f} s", silent,
                                places_[static_cast<std::size_t>(silent)].host, static_cast<double>(patience) * 1e-9)},
                true};
    tell_all(kNotice, failure_->ending);
  }
}

void MpiProcesses::give_sign() {
  int done = 0;
  WEIR_MPI_CHECK(MPI_Test(&sign_, &done, MPI_STATUS_IGNORE));  // the null request is done
  if (done == 0) return;
  WEIR_MPI_CHECK(MPI_Isend(nullptr, 0, MPI_BYTE, (index_ + 1) % count_, kSign, control_, &sign_));
  gave_sign_ns_ = polled_ns_;
}

// Letters are "<exit code> <g if the process is gone> <line>".
void MpiProcesses::read_control() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    WEIR_MPI_CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &there, &status));
    if (there == 0) return;
    int bytes = 0;
    WEIR_MPI_CHECK(MPI_Get_count(&status, MPI_BYTE, &bytes));
    std::string letter(static_cast<std::size_t>(bytes), ' ');
    WEIR_MPI_CHECK(
        MPI_Recv(letter.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, control_, MPI_STATUS_IGNORE));
    if (status.MPI_TAG == kSign) {
      heard_ns_ = polled_ns_;
      continue;
    }
    const Ending ending{letter[0] - '0', letter.substr(2)};
    if (status.MPI_TAG == kVerdict) {
      verdict_ = ending;
    } else if (!failure_) {
      const bool gone = letter[1] == 'g';
      failure_ = {gone ? ending
                       : Ending{6, fmt::format("process {} on {}: {}", status.MPI_SOURCE,
                                               places_[static_cast<std::size_t>(status.MPI_SOURCE)].host, ending.line)},
                  gone};
    }
  }
}

void MpiProcesses::tell_all(int tag, const Ending& ending) {
  const bool gone = failure_ && failure_->gone;
  letters_.push_back(fmt::format("{}{}{}", ending.exit_code, gone ? 'g' : '-', ending.line));
  for (int process = 0; process < count_; ++process) {
    if (process == index_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    WEIR_MPI_CHECK(MPI_Isend(letters_.back().data(), static_cast<int>(letters_.back().size()), MPI_BYTE, process, tag,
                             control_, &request));
    WEIR_MPI_CHECK(MPI_Request_free(&request));  // nobody waits for it, and the letter stays
  }
}

bool MpiProcesses::poll_until(const std::function<bool()>& ready, std::chrono::nanoseconds limit) {
  const std::int64_t until = now() + limit / 1ns;
  for (;;) {
    poll();
    if (ready()) return true;
    if (now() > until) return false;
    std::this_thread::sleep_for(100us);
  }
}

Ending MpiProcesses::agree(const std::optional<Ending>& own) {
  if (index_ == 0) {
    Ending verdict = own ? *own : failure_ ? failure_->ending : Ending{6, "stopped for no known reason"};
    tell_all(kVerdict, verdict);
    return verdict;
  }
  if (own) tell_all(kNotice, *own);
  // Not all at once, should it be the leader that is gone: one speaks, and ends the others.
  if (poll_until([&] { return verdict_.has_value(); }, options_.patience + index_ * 100ms)) return *verdict_;
  Ending known = own ? *own : failure_ ? failure_->ending : Ending{6, "process 0 does not answer"};
  speak_and_abort(known);
  return known;
}

Ending MpiProcesses::conclude(const std::optional<Ending>& own) {
  waiting_ = true;  // the courier rests
  const std::scoped_lock lock(mutex_);
  if (concluded_) return *concluded_;
  progress_ = nullptr;
  try {
    const Ending ending = agree(own);
    if (index_ == 0) options_.speak(ending.line);
    if (failure_ && failure_->gone) {
      // The leader ends them all; should it be the one that is gone, the others do.
      if (index_ != 0) std::this_thread::sleep_for(options_.patience);
      MPI_Abort(MPI_COMM_WORLD, ending.exit_code);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    WEIR_MPI_CHECK(MPI_Ibarrier(control_, &request));
    const bool all = poll_until(
        [&] {
          int done = 0;
          WEIR_MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
          return done != 0;
        },
        options_.patience);
    if (!all) MPI_Abort(MPI_COMM_WORLD, ending.exit_code);
    concluded_ = ending;
    leave();
  } catch (const std::exception& error) {
    speak_and_abort({6, error.what()});
  }
  return *concluded_;
}

void MpiProcesses::speak_and_abort(const Ending& ending) {
  options_.speak(ending.line);
  MPI_Abort(MPI_COMM_WORLD, ending.exit_code);
}

void MpiProcesses::leave() {
  left_ = true;
  MPI_Finalize();
}

}  // namespace weir

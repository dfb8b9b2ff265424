// How the processes of a run wait, hear of each other's failures, and end together.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/mpi/process_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "exec/processes/mpi/process_locations.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

enum ControlTag : int { kHeartbeat = 1, kFailure, kStatus };
constexpr int kLastBarrier =
    64;  // its rounds are apart from other barriers', which some may not have left
// Between two looks while the main thread computes, on whose core the progress thread runs. A look
// costs some 20 us there: on a virtual machine with two cores steps took 1.65 times as long with
// rests of 50 us, and no longer with these (gpt2-mini, K = 1 and 2, MPI). Messages wait so long
// only where the receiver is busy anyway; who waits for one polls himself.
constexpr auto kProgressRest = 2ms;

// Besides patience: MPI's own end, where all have come to it, takes a busy machine seconds.
constexpr auto kWithinMpi = 5s;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch() / 1ns; }

}  // namespace

ProcessGroup::ProcessGroup(Options options)
    : options_(std::move(options)),
      bytes_({options_.patience, options_.late}),
      index_(bytes_.index()),
      count_(bytes_.count()) {
  ProcessLocations found = find_locations(bytes_, options_.patience);
  locations_ = std::move(found.locations);
  oversubscribed_ = found.oversubscribed;
  polled_ns_ = heard_ns_ = now();
  progress_thread_ = std::thread([this] { run_progress_thread(); });
}

ProcessGroup::~ProcessGroup() {
  if (!concluded_) {
    try {
      barrier();
    } catch (...) {
      // Another process failed after this one was done: it and the leader say so.
    }
    const std::scoped_lock lock(mutex_);  // the progress thread must not call MPI after its end
    left_ = true;
    ByteTransport::leave(within_mpi(concluded_));
  }
  closing_ = true;
  progress_thread_.join();
}

Processes::Ticket ProcessGroup::start_send(int to, int tag, std::span<const std::byte> data) {
  const std::scoped_lock lock(mutex_);  // MPI is called by one thread at a time
  return bytes_.start_send(to, Channel::messages, tag, data);
}

Processes::Ticket ProcessGroup::start_receive(int from, int tag, std::span<std::byte> data) {
  const std::scoped_lock lock(mutex_);  // as in start_send
  return bytes_.start_receive(from, Channel::messages, tag, data);
}

void ProcessGroup::wait(Ticket ticket) {
  wait_until([&] { return bytes_.done(static_cast<ByteTransport::Request>(ticket)); });
}

// The dissemination barrier of Hensgen, Finkel and Manber (1988), ceil(log2 n) rounds. In round r
// each hears from the process 2^r before it, and so, when all rounds are over, from all.
void ProcessGroup::barrier() {
  for (int distance = 1, round = 0; distance < count_; distance *= 2, ++round) {
    Meeting both;
    {
      const std::scoped_lock lock(mutex_);  // MPI, as in start_send
      both = meet(distance, round);
    }
    wait_until([&] { return finished(both); });
  }
}

ProcessGroup::Meeting ProcessGroup::meet(int distance, int round) {
  return {
      bytes_.start_send((index_ + distance) % count_, Channel::barriers, round, {}),
      bytes_.start_receive((index_ + count_ - distance) % count_, Channel::barriers, round, {})};
}

bool ProcessGroup::finished(Meeting& both) {
  for (std::optional<ByteTransport::Request>& request : both) {
    if (request && bytes_.done(*request)) request.reset();
  }
  return !both[0] && !both[1];
}

void ProcessGroup::on_poll(std::function<void()> progress) {
  const std::scoped_lock lock(mutex_);  // the progress thread may be calling the one before
  progress_ = std::move(progress);
}

void ProcessGroup::wait_until(const std::function<bool()>& ready) {
  waiting_ = true;  // the progress thread leaves the lock to this one
  for (int round = 0;; ++round) {
    {
      // Held for one look only: `ready` and what the poll moves are also the progress thread's.
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
void ProcessGroup::rest(int round) {
  if (!oversubscribed_) {
    if (round > 100) std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::min(10us * (1 + round / 8), 200us));
  }
}

// Moves messages while the main thread computes.
void ProcessGroup::run_progress_thread() {
  while (!closing_) {
    std::this_thread::sleep_for(kProgressRest);
    if (waiting_) continue;
    // Where the main thread has the lock it moves messages itself, and must not be held up.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || left_) continue;
    try {
      poll();
    } catch (...) {
      if (!failure_) failure_ = {ending_of(std::current_exception()), {}};
    }
  }
}

void ProcessGroup::poll() {
  const std::int64_t time = now();
  const std::int64_t patience = options_.patience / 1ns;
  // Who was held up himself cannot know who was silent meanwhile.
  if (time - polled_ns_ > patience / 4) heard_ns_ += time - polled_ns_;
  polled_ns_ = time;
  read_control();
  // After the control messages, so that nothing is moved in a run that has failed.
  if (progress_ && !stopped()) progress_();
  if (count_ == 1) return;
  if (time - beat_ns_ > patience / 10) send_heartbeat();
  const int before = (index_ + count_ - 1) % count_;  // who sends its heartbeats here
  if (time - heard_ns_ > patience && !stopped()) {
    fail_by(before, fmt::format("has given no sign of life for {:.1f} s",
                                static_cast<double>(patience) * 1e-9));
  }
}

// One at a time: a receiver that stands still gets no more of them.
void ProcessGroup::send_heartbeat() {
  if (heartbeat_ && !bytes_.done(*heartbeat_)) return;
  heartbeat_ = bytes_.start_send((index_ + 1) % count_, Channel::control, kHeartbeat, {});
  beat_ns_ = polled_ns_;
}

void ProcessGroup::fail_by(int gone, const std::string& how) {
  failure_ = {{EndKind::failed, fmt::format("process {} on {} {}", gone, location(gone).host, how)},
              gone};
  tell_all(kFailure, failure_->ending);
}

void ProcessGroup::read_control() {
  for (;;) {
    if (!arriving_) {
      const auto there = bytes_.arrival(Channel::control);
      if (!there) return;
      arriving_ = {there->from, there->tag, std::string(there->bytes, ' '), 0};
      arriving_->request = bytes_.take(std::as_writable_bytes(std::span(arriving_->text)));
    }
    if (!bytes_.done(arriving_->request)) return;
    read(*std::exchange(arriving_, {}));
  }
}

// Control messages but heartbeats are "<kind of end> <the process that is gone, or -1> <line>".
void ProcessGroup::read(const ControlMessage& message) {
  if (message.tag == kHeartbeat) {
    heard_ns_ = polled_ns_;
    return;
  }
  Failure told{{static_cast<EndKind>(message.text[0] - '0'),
                message.text.substr(message.text.find(' ', 2) + 1)},
               {}};
  int gone = -1;
  std::from_chars(message.text.data() + 2, message.text.data() + message.text.size(), gone);
  if (gone >= 0) told.gone = gone;
  if (message.tag == kStatus) status_ = told.ending;
  if (failure_) {
    if (!failure_->gone) failure_->gone = told.gone;
    return;
  }
  // What cannot be asked is said by each of those that were asked it: whoever is first speaks for
  // all. Any other failure is that process's.
  if (message.tag == kFailure && !told.gone && told.ending.kind != EndKind::usage) {
    told.ending = {EndKind::failed, fmt::format("process {} on {}: {}", message.from,
                                                location(message.from).host, told.ending.line)};
  }
  failure_ = std::move(told);
}

void ProcessGroup::tell_all(int tag, const Ending& ending) {
  const int gone = failure_ && failure_->gone ? *failure_->gone : -1;
  control_texts_.push_back(
      fmt::format("{} {} {}", static_cast<int>(ending.kind), gone, ending.line));
  for (int process = 0; process < count_; ++process) {
    if (process == index_) continue;
    // Nobody waits for it, and its text stays.
    static_cast<void>(
        bytes_.start_send(process, Channel::control, tag,
                          std::as_bytes(std::span(std::as_const(control_texts_.back())))));
  }
}

bool ProcessGroup::poll_until(const std::function<bool()>& ready, std::chrono::nanoseconds limit) {
  const std::int64_t until = now() + limit / 1ns;
  for (;;) {
    poll();
    if (ready()) return true;
    if (now() > until) return false;
    std::this_thread::sleep_for(100us);
  }
}

bool ProcessGroup::any_gone() const {
  return failure_ && failure_->gone && *failure_->gone != index_;
}

// The leader, or the next in line where the leader is the one that is gone: it may hear so itself,
// where it stood still and goes on.
bool ProcessGroup::leads() const {
  const bool leader_gone = failure_ && failure_->gone == 0;
  return index_ == (leader_gone ? 1 : 0);
}

Ending ProcessGroup::agree(const std::optional<Ending>& own) {
  if (!leads()) {
    if (own) tell_all(kFailure, *own);
    // Not all at once, should it be the leader that does not answer: one speaks, and ends the
    // others.
    const bool answered = poll_until([&] { return status_.has_value() || leads(); },
                                     options_.patience + index_ * 100ms);
    if (status_) return *status_;
    if (!answered && !failure_) failure_ = {{EndKind::failed, "process 0 does not answer"}, {}};
  }
  Ending status = own        ? *own
                  : failure_ ? failure_->ending
                             : Ending{EndKind::failed, "stopped for no known reason"};
  tell_all(kStatus, status);
  speak(status.line);
  return status;
}

// A barrier that does not wait for ever.
bool ProcessGroup::all_stop() {
  for (int distance = 1, round = kLastBarrier; distance < count_; distance *= 2, ++round) {
    Meeting both = meet(distance, round);
    const bool heard = poll_until([&] { return any_gone() || finished(both); }, options_.patience);
    if (!heard || any_gone()) return false;
  }
  return true;
}

Ending ProcessGroup::conclude(const std::optional<Ending>& own) {
  waiting_ = true;                      // the progress thread rests
  const std::scoped_lock lock(mutex_);  // to the end: nobody else calls MPI any more
  if (concluded_) return *concluded_;
  progress_ = nullptr;
  try {
    concluded_ = agree(own);
    if (all_stop()) {
      ByteTransport::leave(within_mpi(concluded_));
    } else {
      // Who spoke ends them all; the others wait for that, and end them where it does not come.
      if (!spoke_) std::this_thread::sleep_for(options_.patience);
      ByteTransport::abandon(options_.code_of(concluded_->kind), within_mpi(concluded_));
    }
  } catch (const std::exception& error) {
    if (!concluded_) {
      concluded_ = Ending{EndKind::failed, error.what()};
      speak(concluded_->line);
    }
    ByteTransport::abandon(options_.code_of(concluded_->kind), within_mpi(concluded_));
  }
  left_ = true;
  return *concluded_;
}

ByteTransport::Patience ProcessGroup::within_mpi(const std::optional<Ending>& said) const {
  return {options_.patience + kWithinMpi, [stuck = options_.stuck, said] { stuck(said); }};
}

void ProcessGroup::speak(const std::string& line) {
  if (!std::exchange(spoke_, true)) options_.speak(line);
}

}  // namespace weir

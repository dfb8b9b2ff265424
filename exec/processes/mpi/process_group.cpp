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

enum ControlTag : int { kSign = 1, kNotice, kVerdict };
constexpr int kLastBarrier =
    64;  // its rounds are apart from other barriers', which some may not have left
// Between two looks while the main thread computes, on whose core the courier runs. A look costs
// some 20 us there: on a virtual machine with two cores steps took 1.65 times as long with rests of
// 50 us, and no longer with these (gpt2-mini, K = 1 and 2, MPI). Messages wait so long only where
// the receiver is busy anyway; who waits for one polls himself.
constexpr auto kCourierRest = 2ms;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch() / 1ns; }

}  // namespace

ProcessGroup::ProcessGroup(std::unique_ptr<Wire> wire, Options options)
    : options_(std::move(options)),
      wire_(std::move(wire)),
      index_(wire_->index()),
      count_(wire_->count()) {
  ProcessPlaces found = find_places(*wire_, options_.patience);
  places_ = std::move(found.places);
  oversubscribed_ = found.oversubscribed;
  polled_ns_ = heard_ns_ = now();
  courier_ = std::thread([this] { run_courier(); });
}

ProcessGroup::~ProcessGroup() {
  if (!concluded_) {
    try {
      barrier();
    } catch (...) {
      // Another process failed after this one was done: it and the leader say so.
    }
    const std::scoped_lock lock(mutex_);
    left_ = true;
    wire_->leave();
  }
  closing_ = true;
  courier_.join();
}

Processes::Ticket ProcessGroup::start_send(int to, int tag, std::span<const std::byte> data) {
  const std::scoped_lock lock(mutex_);
  return wire_->start_send(to, Channel::messages, tag, data);
}

Processes::Ticket ProcessGroup::start_receive(int from, int tag, std::span<std::byte> data) {
  const std::scoped_lock lock(mutex_);
  return wire_->start_receive(from, Channel::messages, tag, data);
}

void ProcessGroup::wait(Ticket ticket) {
  wait_until([&] { return wire_->done(static_cast<Wire::Request>(ticket)); });
}

// In round r each hears from the process 2^r before it, and so, when all rounds are over, from all.
void ProcessGroup::barrier() {
  for (int distance = 1, round = 0; distance < count_; distance *= 2, ++round) {
    Meeting both;
    {
      const std::scoped_lock lock(mutex_);
      both = meet(distance, round);
    }
    wait_until([&] { return finished(both); });
  }
}

ProcessGroup::Meeting ProcessGroup::meet(int distance, int round) {
  return {
      wire_->start_send((index_ + distance) % count_, Channel::barriers, round, {}),
      wire_->start_receive((index_ + count_ - distance) % count_, Channel::barriers, round, {})};
}

bool ProcessGroup::finished(Meeting& both) {
  for (std::optional<Wire::Request>& request : both) {
    if (request && wire_->done(*request)) request.reset();
  }
  return !both[0] && !both[1];
}

void ProcessGroup::on_poll(std::function<void()> progress) {
  const std::scoped_lock lock(mutex_);
  progress_ = std::move(progress);
}

void ProcessGroup::wait_until(const std::function<bool()>& ready) {
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
void ProcessGroup::rest(int round) {
  if (!oversubscribed_) {
    if (round > 100) std::this_thread::yield();
  } else {
    wire_->rest(std::min(10us * (1 + round / 8), 200us));
  }
}

// Moves messages while the main thread computes.
void ProcessGroup::run_courier() {
  while (!closing_) {
    if (waiting_) {
      std::this_thread::sleep_for(kCourierRest);
      continue;
    }
    wire_->rest(kCourierRest);
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
  wire_->progress();
  read_control();
  if (!stopped()) look_for_gone();
  if (progress_ && !stopped()) progress_();
  if (count_ == 1) return;
  if (time - gave_sign_ns_ > patience / 10) give_sign();
  const int before = (index_ + count_ - 1) % count_;
  if (wire_->heard(before)) heard_ns_ = polled_ns_;
  if (time - heard_ns_ > patience && !stopped()) {
    fail_by(before, fmt::format("has given no sign of life for {:.1f} s",
                                static_cast<double>(patience) * 1e-9));
  }
}

void ProcessGroup::give_sign() {
  if (sign_ && !wire_->done(*sign_)) return;
  sign_ = wire_->start_send((index_ + 1) % count_, Channel::control, kSign, {});
  gave_sign_ns_ = polled_ns_;
}

void ProcessGroup::look_for_gone() {
  for (int process = 0; process < count_; ++process) {
    if (process == index_ || !wire_->gone(process)) continue;
    fail_by(process, "is gone");
    return;
  }
}

void ProcessGroup::fail_by(int gone, const std::string& how) {
  failure_ = {{6, fmt::format("process {} on {} {}", gone, place(gone).host, how)}, gone};
  tell_all(kNotice, failure_->ending);
}

void ProcessGroup::read_control() {
  for (;;) {
    if (!arriving_) {
      const auto there = wire_->arrival(Channel::control);
      if (!there) return;
      arriving_ = {there->from, there->tag, std::string(there->bytes, ' '), 0};
      arriving_->request =
          wire_->take(Channel::control, std::as_writable_bytes(std::span(arriving_->text)));
    }
    if (!wire_->done(arriving_->request)) return;
    read(*std::exchange(arriving_, {}));
  }
}

// Letters are "<exit code> <the process that is gone, or -1> <line>".
void ProcessGroup::read(const Letter& letter) {
  if (letter.tag == kSign) {
    heard_ns_ = polled_ns_;
    return;
  }
  Failure told{{letter.text[0] - '0', letter.text.substr(letter.text.find(' ', 2) + 1)}, {}};
  int gone = -1;
  std::from_chars(letter.text.data() + 2, letter.text.data() + letter.text.size(), gone);
  if (gone >= 0) told.gone = gone;
  if (letter.tag == kVerdict) verdict_ = told.ending;
  if (failure_) {
    if (!failure_->gone) failure_->gone = told.gone;
    return;
  }
  if (letter.tag == kNotice && !told.gone) {
    told.ending = {6, fmt::format("process {} on {}: {}", letter.from, place(letter.from).host,
                                  told.ending.line)};
  }
  failure_ = std::move(told);
}

void ProcessGroup::tell_all(int tag, const Ending& ending) {
  const int gone = failure_ && failure_->gone ? *failure_->gone : -1;
  letters_.push_back(fmt::format("{} {} {}", ending.exit_code, gone, ending.line));
  for (int process = 0; process < count_; ++process) {
    if (process == index_) continue;
    // Nobody waits for it, and the letter stays.
    static_cast<void>(wire_->start_send(process, Channel::control, tag,
                                        std::as_bytes(std::span(std::as_const(letters_.back())))));
  }
}

bool ProcessGroup::poll_until(const std::function<bool()>& ready, std::chrono::nanoseconds limit) {
  const std::int64_t until = now() + limit / 1ns;
  for (;;) {
    poll();
    if (ready()) return true;
    if (now() > until) return false;
    wire_->rest(100us);
  }
}

bool ProcessGroup::is_gone(int process) const {
  return wire_->gone(process) || (failure_ && failure_->gone == process);
}

bool ProcessGroup::any_gone() const {
  for (int process = 0; process < count_; ++process) {
    if (process != index_ && is_gone(process)) return true;
  }
  return false;
}

bool ProcessGroup::leads() const {
  for (int process = 0; process < index_; ++process) {
    if (!is_gone(process)) return false;
  }
  return true;
}

Ending ProcessGroup::agree(const std::optional<Ending>& own) {
  if (!leads()) {
    if (own) tell_all(kNotice, *own);
    // Not all at once, should it be the leader that does not answer: one speaks, and ends the
    // others.
    const bool answered = poll_until([&] { return verdict_.has_value() || leads(); },
                                     options_.patience + index_ * 100ms);
    if (verdict_) return *verdict_;
    if (!answered && !failure_) failure_ = {{6, "process 0 does not answer"}, {}};
  }
  Ending verdict = own        ? *own
                   : failure_ ? failure_->ending
                              : Ending{6, "stopped for no known reason"};
  tell_all(kVerdict, verdict);
  speak(verdict.line);
  return verdict;
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
  waiting_ = true;  // the courier rests
  const std::scoped_lock lock(mutex_);
  if (concluded_) return *concluded_;
  progress_ = nullptr;
  try {
    concluded_ = agree(own);
    if (all_stop()) {
      wire_->leave();
    } else {
      // Who spoke ends them all, where one can.
      wire_->abandon(concluded_->exit_code, spoke_ ? 0ns : options_.patience);
    }
  } catch (const std::exception& error) {
    if (!concluded_) {
      concluded_ = Ending{6, error.what()};
      speak(concluded_->line);
    }
    wire_->abandon(concluded_->exit_code, 0ns);
  }
  left_ = true;
  return *concluded_;
}

void ProcessGroup::speak(const std::string& line) {
  if (!std::exchange(spoke_, true)) options_.speak(line);
}

}  // namespace weir

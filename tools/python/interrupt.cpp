// A flag that a handler sets.
// SPDX-License-Identifier: Apache-2.0
#include "tools/python/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace py = pybind11;

namespace weir::python {
namespace {

// As in tools/weir/stop_signals.cpp: a handler has no argument of ours.
volatile std::sig_atomic_t interrupted = 0;
std::atomic<bool> ending = false;
std::atomic<int> working = 0;
struct sigaction of_python {};

extern "C" void remember_interrupt(int signal) {
  interrupted = signal;
  ::sigaction(SIGINT, &of_python, nullptr);
}

// Python's default handler, which raises KeyboardInterrupt, and the thread that it raises it in.
bool is_pythons_to_answer() {
  const py::module_ signals = py::module_::import("signal");
  const py::module_ threads = py::module_::import("threading");
  return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler")) &&
         threads.attr("current_thread")().is(threads.attr("main_thread")());
}

}  // namespace

Stoppable::Stoppable() { ++working; }
Stoppable::~Stoppable() { --working; }

void stop_at_exit() {
  const auto wait = [] {
    ending = true;
    while (working > 0) {
      const py::gil_scoped_release they_may_return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  py::module_::import("atexit").attr("register")(py::cpp_function(wait));
  // A child of fork() has none of the threads that work.
  py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") =
                                                         py::cpp_function([] { working = 0; }));
}

Interruptible::Interruptible() : listens_(is_pythons_to_answer()) {
  if (!listens_) return;
  ::sigaction(SIGINT, nullptr, &former_);
  of_python = former_;
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = &remember_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}

Interruptible::~Interruptible() {
  if (listens_) ::sigaction(SIGINT, &former_, nullptr);
}

int Interruptible::heard() { return interrupted != 0 ? SIGINT : ended(); }

int Interruptible::ended() { return ending ? SIGINT : 0; }

void Interruptible::rethrow() const {
  if (!listens_ || interrupted == 0) return;
  interrupted = 0;
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw py::error_already_set();
}

}  // namespace weir::python

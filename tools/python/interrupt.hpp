// Ctrl-C, or the interpreter's end, while a function works: what can be asked to stop is, and
// Python hears of it when it has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include "tools/python/bindings.hpp"

namespace weir::python {

// While it lives, a function works that can be asked to stop. The interpreter's end waits for it:
// its threads would go on in libraries that have ended.
class Stoppable {
 public:
  Stoppable();
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;
  ~Stoppable();
};

// Has the interpreter's end ask what is Stoppable to stop, in whichever thread it works.
void stop_at_exit();

// While it lives, SIGINT is heard here and not by Python, which would hear of it only once the work
// is done. Where it is not Python's own handler's to answer (another thread than the main one, a
// handler of the caller's) nothing changes. The second Ctrl-C is Python's again.
class Interruptible {
 public:
  Interruptible();  // with the GIL
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();
  [[nodiscard]] bool listens() const { return listens_; }
  // SIGINT, or 0; any thread may ask. `ended`: of the interpreter's end alone.
  [[nodiscard]] static int heard();
  [[nodiscard]] static int ended();
  // Throws KeyboardInterrupt where it came. With the GIL.
  void rethrow() const;

 private:
  bool listens_ = false;
  struct sigaction former_ {};
};

}  // namespace weir::python

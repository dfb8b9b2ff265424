// Ctrl-C while a function works: what can be asked to stop is, and Python hears of it when it has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace weir::python {

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
  [[nodiscard]] static int heard();  // SIGINT, or 0; any thread may ask
  // Throws KeyboardInterrupt where it came. With the GIL.
  void rethrow() const;

 private:
  bool listens_ = false;
  struct sigaction former_ {};
};

}  // namespace weir::python

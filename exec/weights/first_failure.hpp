// Work in several parts of which one may fail while another process still sends: the rest is taken
// and left, and the failure told at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <stdexcept>

namespace weir {

class FirstFailure {
 public:
  // Does nothing once something has failed.
  template <class Work>
  void guard(Work&& work) {
    if (failed_) return;
    try {
      work();
    } catch (const std::runtime_error&) {  // what a user can mend; all else goes its way
      failed_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  std::exception_ptr failed_;
};

}  // namespace weir

// One body for each index, on all cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tbb/parallel_for.h>

#include <cstddef>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace weir {

#ifdef __SANITIZE_THREAD__
/// Addresses that stand for the begin and the end of bodies: no captured one, whose read would come
/// before what it is to order.
inline char bodies_begun = 0, bodies_ended = 0;
#endif

/// Calls body(0) to body(count - 1), in any order and at once, as oneTBB's threads allow, and comes
/// back when all have ended; the first exception thrown is thrown again. Nested calls share the
/// threads.
template <typename Body>
void in_parallel(std::size_t count, const Body& body) {
#ifdef __SANITIZE_THREAD__
  // libtbb is not instrumented: that bodies begin after this call and end before it returns is told
  // to the sanitizer here, which still sees what two bodies do to each other.
  const auto call = [&body](std::size_t i) {
    __tsan_acquire(&bodies_begun);
    body(i);
    __tsan_release(&bodies_ended);
  };
  __tsan_release(&bodies_begun);
  tbb::parallel_for(std::size_t{0}, count, call);
  __tsan_acquire(&bodies_ended);
#else
  tbb::parallel_for(std::size_t{0}, count, body);
#endif
}

}  // namespace weir

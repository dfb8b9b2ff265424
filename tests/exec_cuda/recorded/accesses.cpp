// The kernels of the emulated device are compiled with the instrumentation of a thread sanitizer,
// whose library is not linked: every load and store calls one of these functions, which tell the
// machine what the running operation does to memory. On the emulated device alone nobody is told.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#ifdef WEIR_EMULATED_DEVICE
namespace {
void note(const void* /*address*/, std::size_t /*bytes*/, bool /*writes*/) {}
}  // namespace
#else
#include "tests/exec_cuda/recorded/machine.hpp"

namespace {
void note(const void* address, std::size_t bytes, bool writes) {
  weir::recorded::Machine& machine = weir::recorded::machine();
  if (writes) {
    machine.writes(address, bytes);
  } else {
    machine.reads(address, bytes);
  }
}
}  // namespace
#endif

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
#define WEIR_ACCESS(bytes)                                                \
  void __tsan_read##bytes(void* at) { note(at, bytes, false); }           \
  void __tsan_write##bytes(void* at) { note(at, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* at) { note(at, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* at) { note(at, bytes, true); } \
  void __tsan_volatile_read##bytes(void* at) { note(at, bytes, false); }  \
  void __tsan_volatile_write##bytes(void* at) { note(at, bytes, true); }
WEIR_ACCESS(1)
WEIR_ACCESS(2)
WEIR_ACCESS(4)
WEIR_ACCESS(8)
WEIR_ACCESS(16)
#undef WEIR_ACCESS
void __tsan_read_range(void* at, std::size_t bytes) { note(at, bytes, false); }
void __tsan_write_range(void* at, std::size_t bytes) { note(at, bytes, true); }
}

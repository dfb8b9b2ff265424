// Asks the kernel for a mapping as large as what the library will take, and gives it back.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/library_memory.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace weir::cpu {
namespace {

// A kernel's code gets 256 KiB and more; the product of fp32 matrices has some twenty of them,
// generated when the first one runs.
constexpr std::size_t kCode = std::size_t{8} << 20;

}  // namespace

void require_library_memory() {
  void* const room =
      ::mmap(nullptr, kCode, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kCode);
}

}  // namespace weir::cpu

// How much memory the machine can still give. Linux promises any amount and ends the process that
// takes it at its word; who asks first can say which tensor it was for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "plan/words/units.hpp"

namespace weir {

// As `what()` says: so much is there.
class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(Bytes there);
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// The least of what the system calls available, of what the process' control group (version 2) has
// left, and of what its limit of addresses (RLIMIT_AS) leaves; nothing where none of them says.
struct MemoryFiles {
  std::filesystem::path system = "/proc/meminfo";
  std::filesystem::path group = "/sys/fs/cgroup";
};
[[nodiscard]] std::optional<Bytes> free_memory(const MemoryFiles& files = {});

}  // namespace weir

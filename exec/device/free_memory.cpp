// Two files of Linux, read as they stand, and a limit of the process.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/free_memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace weir {
namespace {

// "MemAvailable:   12345 kB"
std::optional<std::int64_t> system_bytes(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string name, unit;
  for (std::int64_t kib = 0; in >> name >> kib;) {
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(in, unit);
  }
  return std::nullopt;
}

std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;  // "max", or no such file
}

// Of the process' addresses, the first number of Linux' statm: pages.
std::optional<std::int64_t> addresses_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto pages = number_in("/proc/self/statm");
  if (!pages) return std::nullopt;
  const std::int64_t used = *pages * sysconf(_SC_PAGESIZE);
  return std::max<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - used, 0);
}

}  // namespace

NoMemory::NoMemory(Bytes there) : text_(fmt::format("{} are free", format_bytes(there))) {}

std::optional<Bytes> free_memory(const MemoryFiles& files) {
  std::optional<std::int64_t> least = system_bytes(files.system);
  const auto most = number_in(files.group / "memory.max");
  const auto used = number_in(files.group / "memory.current");
  if (most && used) {
    const std::int64_t left = std::max<std::int64_t>(*most - *used, 0);
    least = std::min(least.value_or(left), left);
  }
  if (const auto left = addresses_left()) least = std::min(least.value_or(*left), *left);
  if (!least) return std::nullopt;
  return Bytes(*least);
}

}  // namespace weir

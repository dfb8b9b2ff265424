// What a rank was last at, as a line in a file that outlives a process that is killed: the file is
// mapped, so that an action costs no call of the system, and what was written there is the
// system's to keep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "plan/program/program.hpp"

namespace weir {

class LastAction {
 public:
  // OUT/last-actions/rank-1.txt, "rank 1: at no action yet". Throws as fail_to_write()
  // (plan/text/new_file). `program` outlives it.
  LastAction(const std::filesystem::path& output, const Program& program, Rank rank, int replica);
  LastAction(const LastAction&) = delete;
  LastAction& operator=(const LastAction&) = delete;
  ~LastAction();  // leaves the file

  void begun(OperationId id, std::uint32_t step) noexcept;
  void ended(OperationId id, std::uint32_t step) noexcept;
  // The run has ended well: nobody asks.
  void remove() noexcept;

  // What another run has left there.
  static void clear(const std::filesystem::path& output) noexcept;

 private:
  void write(OperationId id, std::uint32_t step, const char* what) noexcept;

  std::filesystem::path file_;
  const Program& program_;
  std::string who_;
  char* line_ = nullptr;  // mapped
};

}  // namespace weir

// The file by which the processes of a run find the first of them: where it listens, and the run's
// number. Only its owner can read it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "exec/socket/greeting.hpp"

namespace weir {

[[nodiscard]] std::string to_text(const Greeting& leader);
[[nodiscard]] std::optional<Greeting> parse_rendezvous(const std::string& text);

// Nothing while there is no such file, or an empty one. Throws InputError for a file that is
// something else, and where the folder does not exist.
[[nodiscard]] std::optional<Greeting> read_rendezvous(const std::filesystem::path& file);

// Stands as long as this does. What an earlier run left is replaced; its end is another's only if
// the file is.
class RendezvousFile {
 public:
  // Throws InputError where it cannot be written.
  RendezvousFile(std::filesystem::path file, const Greeting& leader);
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;
  ~RendezvousFile();
  [[nodiscard]] bool stands() const noexcept;  // false: another run has written it since

 private:
  std::filesystem::path file_;
  RunNumber run_;
};

}  // namespace weir

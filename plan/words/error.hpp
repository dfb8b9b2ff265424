// The errors that end a command. An expected "no" (infeasible, invalid schedule) is a return value,
// a bug is an assert; what the user can mend is one of these, and the command turns each into one
// line and an exit code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace weir {

// Bad input, exit code 3. The one line reads "FILE: KEY: MESSAGE"; `key` may be empty, `file` may
// be an option.
class InputError : public std::runtime_error {
 public:
  InputError(const std::string& file, const std::string& key, const std::string& message)
      : std::runtime_error(file + ": " + (key.empty() ? "" : key + ": ") + message) {}
};

// A contradiction between options, exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// No plan satisfies the constraints, exit code 4.
class NoFeasiblePlan : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Hardware, library or component that is not here, exit code 5.
class MissingComponent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The executor stopped before the end (a device failed, memory ran out, a peer vanished), exit code
// 6.
class RunFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weir

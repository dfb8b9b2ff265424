// What the user can mend, one line each. An expected "no" (infeasible, invalid schedule) is a
// return value, a bug is an assert. What an error means to whoever called is decided there: the
// command turns each kind into a status of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace weir {

// Bad input. The one line reads "FILE: KEY: MESSAGE"; `key` may be empty, `file` may be an option.
class InputError : public std::runtime_error {
 public:
  InputError(const std::string& file, const std::string& key, const std::string& message)
      : std::runtime_error(file + ": " + (key.empty() ? "" : key + ": ") + message) {}
};

// A contradiction between options.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// No plan satisfies the constraints.
class NoFeasiblePlan : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Hardware, library or component that is not here.
class MissingComponent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The executor stopped before the end (a device failed, memory ran out, a peer vanished).
class RunFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weir

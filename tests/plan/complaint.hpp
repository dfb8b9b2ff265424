// What an action refuses its input with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/words/error.hpp"

namespace weir {

// The one line of the InputError that `action` throws; "no complaint" where it throws none.
template <class Action>
std::string complaint(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no complaint";
}

}  // namespace weir

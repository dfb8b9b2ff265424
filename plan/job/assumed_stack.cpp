// The origin of a stack's name says that nobody gave it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/assumed_stack.hpp"

namespace weir {
namespace {

constexpr const char* kName = "name";

}  // namespace

void set_assumed(Stack& stack) {
  stack.origins[kName] = {"the default of a call that names no stack", std::nullopt};
}

bool is_assumed(const Stack& stack) { return stack.origins.contains(kName); }

}  // namespace weir

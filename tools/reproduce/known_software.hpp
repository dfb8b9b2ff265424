// The stacks that are compiled in, as software that may run a plan of which nobody says what does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/job/stack.hpp"
#include "plan/words/dtype.hpp"

namespace weir {

// What a call takes for GPUs where no software is named: none, but the middle of what is known.
inline constexpr std::string_view kDefaultStack = "typical";
// Whose abilities a stack has: megatron-core's where it is the default, else its own.
[[nodiscard]] std::string whose_abilities(const std::string& stack);

// All but Weir's own, which runs on CPUs and in processes of its own, and for numbers of 16 bits
// but what runs in fp32. `without`: constants that were chosen seeing runs of that source are what
// their certificates say they are without.
[[nodiscard]] std::vector<Stack> known_software(Dtype dtype, const std::string& without = "");

}  // namespace weir

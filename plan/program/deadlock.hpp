// The proof that a program cannot deadlock: the graph of lane order, data, messages, slots and
// blocking transfers (plan/program/graph) has no cycle. A cycle, where there is one, is the
// counter-example.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/program/program.hpp"

namespace weir {

// A cycle, as operations each of which waits for the next (the last for the first); nullopt when
// the program cannot deadlock. The shortest one takes quadratic time.
[[nodiscard]] std::optional<std::vector<OperationId>> find_cycle(const Program& program);
[[nodiscard]] std::optional<std::vector<OperationId>> shortest_cycle(const Program& program);

// "rank 0 send lane to 1: 0SEND_F2 waits for a slot freed by 1F0 on rank 1; ..." one line a wait.
[[nodiscard]] std::string describe_cycle(const Program& program,
                                         const std::vector<OperationId>& cycle);

// The shortest cycle, described. Precondition: the program can deadlock.
[[nodiscard]] std::string describe_deadlock(const Program& program);

}  // namespace weir

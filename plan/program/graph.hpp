// Who waits for whom, as a graph, and its cycles; by Boost.Graph, which stays in the .cpp. An
// engine's inner loop walks arrays of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/program/program.hpp"

namespace weir {

struct Wait {
  OperationId id, before;  // `id` starts after the end of `before`
};
// Waits of operations 0 .. operations-1, ascending by `id`. Those of one operation keep their
// order, by which searches go.
struct WaitGraph {
  std::size_t operations = 0;
  std::vector<Wait> waits;
};

// All that a program's operations wait for: each its lane predecessor, then its dependencies.
[[nodiscard]] WaitGraph wait_graph(const Program& program);

// A cycle, as operations each of which waits for the next (the last for the first); nullopt where
// there is none. `find_cycle` gives the first that a search from operation 0 on meets, in linear
// time; `shortest_cycle` the shortest, of several that with the lowest operation in front, in time
// quadratic in the operations that are on cycles.
[[nodiscard]] std::optional<std::vector<OperationId>> find_cycle(const WaitGraph& graph);
[[nodiscard]] std::optional<std::vector<OperationId>> shortest_cycle(const WaitGraph& graph);

}  // namespace weir

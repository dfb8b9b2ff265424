// Boost.Graph over the waits: a vertex is an operation's number, an arc leads from an operation to
// what it waits for.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/graph.hpp"

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/pending/queue.hpp>
#include <utility>

namespace weir {
namespace {

using Graph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::int32_t, std::int32_t>;
using Arc = boost::graph_traits<Graph>::edge_descriptor;
using Path = std::vector<OperationId>;

Graph boost_graph(const WaitGraph& graph) {
  // Waits were added operation by operation, so arcs are sorted by where they begin.
  const auto arc = [](const Wait& wait) { return std::pair(wait.id.value, wait.before.value); };
  return {boost::edges_are_sorted, boost::make_transform_iterator(graph.waits.begin(), arc),
          boost::make_transform_iterator(graph.waits.end(), arc),
          static_cast<std::int32_t>(graph.operations),
          static_cast<std::int32_t>(graph.waits.size())};
}

// The way from `first` to `last` by which a search came, whose steps `from` has.
Path way(const PerOperation<OperationId>& from, OperationId first, OperationId last) {
  Path path{last};
  while (path.back() != first) path.push_back(from[path.back()]);
  std::ranges::reverse(path);
  return path;
}

// Depth first: an arc back to an operation on the current path closes a cycle.
struct FirstCycle : boost::dfs_visitor<> {
  explicit FirstCycle(Path& into, std::size_t operations) : cycle(into), from(operations) {}
  void tree_edge(Arc arc, const Graph& g) {
    from[OperationId{target(arc, g)}] = OperationId{source(arc, g)};
  }
  void back_edge(Arc arc, const Graph& g) {
    if (cycle.empty()) cycle = way(from, OperationId{target(arc, g)}, OperationId{source(arc, g)});
  }
  Path& cycle;
  PerOperation<OperationId> from;
};

// Breadth first from one operation: the first arc back to it closes its shortest cycle. A search
// ends by an exception, as Boost's do.
struct Ended {};
struct CycleThrough : boost::bfs_visitor<> {
  CycleThrough(OperationId start, Path& into, PerOperation<OperationId>& came,
               PerOperation<std::size_t>& depths, Path& found)
      : root(start), best(into), from(came), depth(depths), reached(found) {}
  void discover_vertex(std::int32_t id, const Graph&) { reached.emplace_back(id); }
  void tree_edge(Arc arc, const Graph& g) {
    from[OperationId{target(arc, g)}] = OperationId{source(arc, g)};
    depth[OperationId{target(arc, g)}] = depth[OperationId{source(arc, g)}] + 1;
  }
  void examine_vertex(std::int32_t id, const Graph&) {
    // From here on no cycle is shorter than the best one.
    if (!best.empty() && depth[OperationId{id}] >= best.size()) throw Ended{};
  }
  void non_tree_edge(Arc arc, const Graph& g) {
    if (OperationId{target(arc, g)} != root) return;
    best = way(from, root, OperationId{source(arc, g)});
    throw Ended{};
  }
  OperationId root;
  Path& best;
  PerOperation<OperationId>& from;
  PerOperation<std::size_t>& depth;
  Path& reached;
};

std::optional<Path> if_any(Path path) {
  return path.empty() ? std::nullopt : std::optional(std::move(path));
}

}  // namespace

WaitGraph wait_graph(const Program& program) {
  WaitGraph graph{program.size(), {}};
  graph.waits.reserve(3 * program.size());
  for (const OperationId id : program.ids()) {
    const OperationId previous = program.previous(id);
    if (previous != kNoOperation) graph.waits.push_back({id, previous});
    for (const Dependency& d : program.predecessors(id)) graph.waits.push_back({id, d.before});
  }
  return graph;
}

std::optional<std::vector<OperationId>> find_cycle(const WaitGraph& graph) {
  Path cycle;
  boost::depth_first_search(boost_graph(graph),
                            boost::visitor(FirstCycle(cycle, graph.operations)));
  return if_any(std::move(cycle));
}

std::optional<std::vector<OperationId>> shortest_cycle(const WaitGraph& graph) {
  const Graph g = boost_graph(graph);
  PerOperation<std::int32_t> component(graph.operations);
  const auto index = get(boost::vertex_index, g);
  boost::strong_components(g, boost::make_iterator_property_map(component.begin(), index));
  Path best, reached;
  PerOperation<OperationId> from(graph.operations);
  PerOperation<std::size_t> depth(graph.operations, 1);
  std::vector<boost::default_color_type> colour(graph.operations, boost::white_color);
  OperationId searched = kNoOperation;
  for (const auto& [root, before] : graph.waits) {
    // Waits within one strongly connected component, and only those, are on cycles.
    if (component[root] != component[before] || root == searched) continue;
    searched = root;
    boost::queue<std::int32_t> queue;
    try {
      boost::breadth_first_visit(g, root.value, queue,
                                 CycleThrough(root, best, from, depth, reached),
                                 boost::make_iterator_property_map(colour.begin(), index));
    } catch (const Ended&) {
    }
    // The next search finds all fresh again: only what this one reached has changed.
    for (const OperationId id : reached) {
      colour[id.position()] = boost::white_color;
      depth[id] = 1;
    }
    reached.clear();
  }
  return if_any(std::move(best));
}

}  // namespace weir

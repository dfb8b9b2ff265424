// Walks back from the end, and adds up what lies between each operation's end and the end of what
// it waited for.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/critical_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weir {
namespace {

// Of what `id` waits for, what ended last.
OperationId awaited(const Program& program, IndexedView<OperationId, const Span> spans,
                    OperationId id) {
  OperationId last = program.previous(id);
  for (const Dependency& dependency : program.predecessors(id)) {
    // The lane's own predecessor stays where ends are equal: only what is strictly later replaces
    // it.
    if (last == kNoOperation || spans[dependency.before].end > spans[last].end)
      last = dependency.before;
  }
  return last;
}

}  // namespace

CriticalPath critical_path(const Program& program, const Trace& trace) {
  const auto spans = trace.of_step(0);
  const StepWindow window = trace.steps.front();
  CriticalPath path;
  std::map<std::string, CriticalPart> parts;
  const auto add = [&](std::string kind, Nanoseconds time) {
    if (time.count() == 0) return;
    CriticalPart& part = parts[kind];
    part.kind = std::move(kind);
    part.time += time;
    ++part.actions;
  };
  OperationId at = kNoOperation;
  for (const OperationId id : program.ids()) {
    if (at == kNoOperation || spans[id].end > spans[at].end) at = id;
  }
  // What the step has beyond its last operation.
  add("end", window.end - (at == kNoOperation ? window.start : spans[at].end));
  while (at != kNoOperation) {
    path.operations.push_back(at);
    const OperationId before = awaited(program, spans, at);
    const Nanoseconds reached = before == kNoOperation ? window.start : spans[before].end;
    // A receive's span begins with its send, so it may begin before what it waited for has ended.
    const Nanoseconds start = std::max(spans[at].start, reached);
    add("host", start - reached);
    add(std::string(to_string(spans[at].action.kind)), spans[at].end - start);
    at = before;
  }
  std::ranges::reverse(path.operations);
  for (auto& [kind, part] : parts) path.parts.push_back(std::move(part));
  // Equal times stay in the order of their names, which is the map's.
  std::ranges::stable_sort(path.parts, std::ranges::greater(), &CriticalPart::time);
  return path;
}

}  // namespace weir

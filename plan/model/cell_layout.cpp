// Lifetimes of a cell's values, and workspace shared by those that are not alive together.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/cell_layout.hpp"

#include <algorithm>

namespace weir {
namespace {

using Kind = CellOperationKind;
using Where = CellPlace::Where;

// Workspace in slots: a value takes the first slot that is free from `first` on.
class Slots {
 public:
  [[nodiscard]] std::size_t take(std::int64_t numbers, int first, int last) {
    std::size_t slot = 0;
    while (slot < slots_.size() && slots_[slot].last >= first) ++slot;
    if (slot == slots_.size()) slots_.emplace_back();
    slots_[slot].last = last;
    slots_[slot].numbers = std::max(slots_[slot].numbers, padded(numbers));
    return slot;
  }
  // Numbers a sample before slot `slot`; of one past the last, all.
  [[nodiscard]] std::int64_t offset(std::size_t slot) const {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < slot; ++i) before += slots_[i].numbers;
    return before;
  }
  [[nodiscard]] std::int64_t numbers() const { return offset(slots_.size()); }

 private:
  // Every slot begins at a cache line, whatever the batch.
  static std::int64_t padded(std::int64_t numbers) { return (numbers + 15) / 16 * 16; }
  struct Slot {
    std::int64_t numbers = 0;
    int last = -1;  // when its value is read last
  };
  std::vector<Slot> slots_;
};

// Of value v, the first and the last operation that reads it; of the cell's output none.
struct Readers {
  int first = -1, last = -1, count = 0;
};

std::vector<Readers> readers_of(const CellShape& cell) {
  std::vector<Readers> readers(cell.operations.size() + 1);
  for (int i = 0; i < cell.output(); ++i) {
    for (const int value : cell.operations[static_cast<std::size_t>(i)].inputs) {
      Readers& of = readers[static_cast<std::size_t>(value)];
      if (of.count++ == 0) of.first = i;
      of.last = i;
    }
  }
  return readers;
}

bool has_parameters(Kind kind) { return kind == Kind::convolution || kind == Kind::batch_norm; }

// What stays of the values, and what else operations save, carry and learn. The order is that of
// plan/model/layer_cell's lists.
void keep(const CellShape& cell, CellLayout& layout) {
  int saved = 0, carried = 0, parameters = 0;
  const std::size_t operations = cell.operations.size();
  layout.read_by_w.assign(operations + 1, false);
  layout.read_by_i.assign(operations + 1, false);
  for (const CellOperation& operation : cell.operations) {
    const auto from = static_cast<std::size_t>(operation.inputs.front());
    if (operation.kind == Kind::convolution) layout.read_by_w[from] = true;
    if (operation.kind == Kind::batch_norm) layout.read_by_i[from] = true;
  }
  layout.values.assign(operations + 1, {});
  layout.gradients.assign(operations + 1, {});
  layout.values[0] = {cell.reads_images ? Where::saved : Where::input, saved, 0};
  if (cell.reads_images) ++saved;
  for (std::size_t v = 1; v < operations; ++v) {
    if (layout.read_by_w[v] || layout.read_by_i[v]) layout.values[v] = {Where::saved, saved++, 0};
  }
  layout.values[operations] = {Where::output, 0, 0};
  for (std::size_t i = 0; i < operations; ++i) {
    const CellOperation& operation = cell.operations[i];
    const bool keeps = operation.kind == Kind::batch_norm || operation.kind == Kind::relu ||
                       operation.kind == Kind::max_pool;
    const bool norm = operation.kind == Kind::batch_norm;
    layout.saved.push_back(keeps ? saved++ : -1);
    layout.parameter.push_back(has_parameters(operation.kind) ? parameters : -1);
    if (operation.kind == Kind::convolution) {
      parameters += operation.bias ? 2 : 1;
      // W reads the gradient of what the convolution made; the last one's is the cell's own.
      if (i + 1 < operations) layout.gradients[i + 1] = {Where::carried, carried++, 0};
    }
    // A gain, a shift and the running statistics.
    if (norm) parameters += 3;
    layout.carried.push_back(norm ? carried++ : -1);
  }
}

}  // namespace

CellLayout cell_layout(const CellShape& cell) {
  CellLayout layout;
  keep(cell, layout);
  const std::vector<Readers> readers = readers_of(cell);
  const int operations = cell.output();
  Slots forward, backward;
  std::vector<std::size_t> forward_slot(readers.size()), backward_slot(readers.size());
  for (int v = 1; v < operations; ++v) {
    const auto at = static_cast<std::size_t>(v);
    if (layout.values[at].where != Where::nowhere) continue;
    forward_slot[at] = forward.take(cell.map(v).numbers(), v - 1, readers[at].last);
    layout.values[at] = {Where::workspace, 0, 0};
  }
  // Backwards, a gradient is first written by the value's last reader and read by who made it; time
  // runs down from the last operation.
  std::int64_t summand = 0;
  for (int v = operations - 1; v >= 0; --v) {
    const auto at = static_cast<std::size_t>(v);
    // Nobody wants the gradient of images.
    if (v == 0 && cell.reads_images) break;
    // Gradients of several readers are added up: one summand at a time stands beside the sum.
    if (readers[at].count > 1) summand = std::max(summand, cell.map(v).numbers());
    if (v == 0) {
      layout.gradients[0] = {Where::input, 0, 0};
    } else if (layout.gradients[at].where == Where::nowhere) {
      layout.gradients[at] = {Where::workspace, 0, 0};
    }
  }
  // In the order in which they are first written: by descending last reader.
  std::vector<int> order;
  for (int v = 1; v < operations; ++v) order.push_back(v);
  std::ranges::stable_sort(order, [&](int a, int b) {
    return readers[static_cast<std::size_t>(a)].last > readers[static_cast<std::size_t>(b)].last;
  });
  for (const int v : order) {
    const auto at = static_cast<std::size_t>(v);
    if (layout.gradients[at].where != Where::workspace) continue;
    backward_slot[at] =
        backward.take(cell.map(v).numbers(), operations - 1 - readers[at].last, operations - v);
  }
  layout.gradients[static_cast<std::size_t>(operations)] = {Where::output, 0, 0};
  for (std::size_t v = 0; v < readers.size(); ++v) {
    if (layout.values[v].where == Where::workspace)
      layout.values[v].offset = forward.offset(forward_slot[v]);
    if (layout.gradients[v].where == Where::workspace)
      layout.gradients[v].offset = backward.offset(backward_slot[v]);
  }
  layout.workspace_f = forward.numbers();
  layout.summand = {Where::workspace, 0, backward.numbers()};
  // Padded as a slot is.
  layout.workspace_i = backward.numbers() + (summand + 15) / 16 * 16;
  return layout;
}

}  // namespace weir

// The cell on CUDA: its operations one after the other, and backwards, on the tensors that
// plan/model/cell_layout has named.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "exec/cuda/cells/convolution.hpp"
#include "exec/cuda/cells/windows.hpp"
#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/kernels/map_norms.hpp"
#include "exec/cuda/kernels/maps.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/device/cell_operands.hpp"

namespace weir::cuda {
namespace {

using Kind = CellOperationKind;

template <class E>
struct CellPass {
  const CellShape& cell;
  const LayerCall& call;
  const Workbench& on;
  CellOperands<E> operands{cell, call};

  [[nodiscard]] const CellOperation& operation(std::size_t i) const { return cell.operations[i]; }
  [[nodiscard]] const FeatureMap& input_map(const CellOperation& o) const {
    return cell.map(o.inputs.front());
  }
  [[nodiscard]] Windows windows(const CellOperation& o) const {
    return windows_of(input_map(o), o, call.batch);
  }
  [[nodiscard]] Convolution convolution(const CellOperation& o) const {
    return {input_map(o), o, call.batch};
  }
  [[nodiscard]] Rows rows(const FeatureMap& map) const {
    return {operands.places(map), map.channels};
  }
  void copy(const E* from, std::int64_t numbers, E* to) const {
    CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(numbers) * sizeof(E),
                               cudaMemcpyDeviceToDevice, on.stream));
  }
  // Input number k of a concatenation, among the output's channels; of a packing among a sample's
  // numbers.
  [[nodiscard]] Columns part(const CellOperation& o, std::size_t k) const {
    const FeatureMap& map = cell.map(o.inputs[k]);
    if (o.kind == Kind::pack) {
      return {call.batch,        map.numbers(), 0, map.numbers(), numbers_before(cell, o, k),
              o.output.numbers()};
    }
    return {operands.places(map),        map.channels,     0, map.channels,
            channels_before(cell, o, k), o.output.channels};
  }
  [[nodiscard]] Columns sliced(const CellOperation& o) const {
    return {call.batch, o.output.numbers(), o.offset, input_map(o).numbers(),
            0,          o.output.numbers()};
  }
};

Columns turned(const Columns& c) {
  return {c.rows, c.width, c.to_offset, c.to_row, c.from_offset, c.from_row};
}

template <class E>
void norm_forward(const CellPass<E>& pass, std::size_t i) {
  const auto& [cell, call, on, operands] = pass;
  const CellOperation& o = cell.operations[i];
  const E* x = operands.value(o.inputs.front());
  float* moments = operands.saved(i).floats();
  if (cell.inference) {
    convert(operands.weight(i, 2), 2 * o.output.channels, moments, on.stream);
  } else {
    channel_moments<E>(x, pass.rows(o.output), on.partials, moments, on.stream);
  }
  batch_norm<E>(
      {x, moments, operands.weight(i, 0), operands.weight(i, 1), static_cast<float>(o.epsilon)},
      pass.rows(o.output), operands.value(static_cast<int>(i) + 1), on.stream);
}

template <class E>
void add_values(const CellPass<E>& pass, const CellOperation& o, E* y) {
  const auto& [cell, call, on, operands] = pass;
  const std::int64_t numbers = operands.numbers(o.output);
  const E* sum = operands.value(o.inputs.front());
  if (o.inputs.size() == 1) return pass.copy(sum, numbers, y);
  for (std::size_t k = 1; k < o.inputs.size(); ++k) {
    add<E>(sum, operands.value(o.inputs[k]), numbers, y, on.stream);
    sum = y;
  }
}

template <class E>
void operate(const CellPass<E>& pass, std::size_t i) {
  const auto& [cell, call, on, operands] = pass;
  const CellOperation& o = cell.operations[i];
  const E* x = operands.value(o.inputs.front());
  E* y = operands.value(static_cast<int>(i) + 1);
  switch (o.kind) {
    case Kind::convolution:
      return pass.convolution(o).template forward<E>(on, x, operands.weight(i, 0),
                                                     o.bias ? operands.weight(i, 1) : nullptr, y);
    case Kind::batch_norm:
      return norm_forward(pass, i);
    case Kind::relu:
      return rectify<E>(x, operands.numbers(o.output), y, operands.bytes(i), on.stream);
    case Kind::max_pool:
      return max_pool<E>(pass.windows(o), x, y, operands.bytes(i), on.stream);
    case Kind::average_pool:
    case Kind::global_pool:
      return average_pool<E>(pass.windows(o), x, y, on.stream);
    case Kind::add:
      return add_values(pass, o, y);
    case Kind::concat:
    case Kind::pack:
      for (std::size_t k = 0; k < o.inputs.size(); ++k)
        copy_columns<E>(pass.part(o, k), operands.value(o.inputs[k]), y, on.stream);
      return;
    case Kind::upsample:
      return upsample<E>(pass.windows(o), x, y, on.stream);
    case Kind::slice:
      return copy_columns<E>(pass.sliced(o), x, y, on.stream);
  }
}

template <class E>
void norm_backward(const CellPass<E>& pass, std::size_t i, const E* dy, E* dx) {
  const auto& [cell, call, on, operands] = pass;
  const CellOperation& o = cell.operations[i];
  batch_norm_gradient<E>({.x = operands.value(o.inputs.front()),
                          .moments = operands.saved(i).floats(),
                          .gain = operands.weight(i, 0),
                          .epsilon = static_cast<float>(o.epsilon),
                          .dy = dy,
                          .dx = dx,
                          .gradients = operands.carried(i),
                          .partials = on.partials},
                         pass.rows(o.output), on.stream);
}

// The gradient of operation i's input number k into `dx`, overwritten.
template <class E>
void input_gradient(const CellPass<E>& pass, std::size_t i, std::size_t k, E* dx) {
  const auto& [cell, call, on, operands] = pass;
  const CellOperation& o = cell.operations[i];
  const E* dy = operands.gradient(static_cast<int>(i) + 1);
  const std::int64_t numbers = operands.numbers(o.output);
  switch (o.kind) {
    case Kind::convolution:
      return pass.convolution(o).template input_gradient<E>(on, operands.weight(i, 0), dy, dx);
    case Kind::batch_norm:
      return norm_backward(pass, i, dy, dx);
    case Kind::relu:
      return rectify_gradient<E>(operands.bytes(i), dy, numbers, dx, on.stream);
    case Kind::max_pool:
      return max_pool_gradient<E>(pass.windows(o), operands.bytes(i), dy, dx, on.stream);
    case Kind::average_pool:
    case Kind::global_pool:
      return average_pool_gradient<E>(pass.windows(o), dy, dx, on.stream);
    case Kind::add:
      return pass.copy(dy, numbers, dx);
    case Kind::concat:
    case Kind::pack:
      return copy_columns<E>(turned(pass.part(o, k)), dy, dx, on.stream);
    case Kind::upsample:
      return upsample_gradient<E>(pass.windows(o), dy, dx, on.stream);
    case Kind::slice: {
      // What the slice left out has no gradient from here.
      const auto all = static_cast<std::size_t>(operands.numbers(pass.input_map(o)));
      CUDA_CHECK(cudaMemsetAsync(dx, 0, all * sizeof(E), on.stream));
      return copy_columns<E>(turned(pass.sliced(o)), dy, dx, on.stream);
    }
  }
}

template <class E>
void cell_backward_input(const CellPass<E>& pass) {
  const auto& [cell, call, on, operands] = pass;
  // The first gradient of a value overwrites and later ones add, so that no memory is cleared
  // beforehand.
  std::vector<bool> written(cell.operations.size() + 1, false);
  for (std::size_t i = cell.operations.size(); i-- > 0;) {
    const CellOperation& o = cell.operations[i];
    for (std::size_t k = 0; k < o.inputs.size(); ++k) {
      const auto value = static_cast<std::size_t>(o.inputs[k]);
      E* dx = operands.gradient(o.inputs[k]);
      if (dx == nullptr) continue;  // of images nobody asks for one
      if (!written[value]) {
        input_gradient(pass, i, k, dx);
        written[value] = true;
      } else {
        // A kernel overwrites: a further summand is made apart, then added.
        input_gradient(pass, i, k, operands.summand());
        add<E>(dx, operands.summand(), operands.numbers(cell.map(o.inputs[k])), dx, on.stream);
      }
    }
  }
}

template <class E>
void norm_backward_weight(const CellPass<E>& pass, std::size_t i) {
  const auto& [cell, call, on, operands] = pass;
  const std::int64_t channels = cell.operations[i].output.channels;
  const float* gains = operands.carried(i);
  accumulate({{{gains, operands.weight_gradient(i, 0), channels},
               {gains + channels, operands.weight_gradient(i, 1), channels}},
              2},
             beta(call), on.stream);
  // Once for each micro-batch, however often its F was run.
  const auto share = static_cast<float>(static_cast<double>(call.batch) * call.sample_share);
  const Beta kept = call.accumulate_running ? Beta::one : Beta::zero;
  add_moments<E>(operands.saved(i).floats(), operands.weight(i, 2), channels, share, kept,
                 operands.weight_gradient(i, 2), on.stream);
}

template <class E>
void cell_backward_weight(const CellPass<E>& pass) {
  const auto& [cell, call, on, operands] = pass;
  for (std::size_t i = cell.operations.size(); i-- > 0;) {
    const CellOperation& o = cell.operations[i];
    if (o.kind == Kind::batch_norm) norm_backward_weight(pass, i);
    if (o.kind != Kind::convolution) continue;
    const E* dy = operands.gradient(static_cast<int>(i) + 1);
    pass.convolution(o).template weight_gradient<E>(on, operands.value(o.inputs.front()), dy,
                                                    beta(call), operands.weight_gradient(i, 0));
    if (o.bias) {
      column_sum<E>(dy, pass.rows(o.output), beta(call), on.partials,
                    operands.weight_gradient(i, 1), on.stream);
    }
  }
}

}  // namespace

ScratchNeeds prepare(const CellShape& cell, std::int64_t batch, std::int64_t, const Workbench& on) {
  ScratchNeeds needs{.words = cell.reads_images ? batch * cell.input.numbers() : 0};
  for (const CellOperation& o : cell.operations) {
    const Rows rows{batch * o.output.places(), o.output.channels};
    if (o.kind == Kind::batch_norm) needs.partials = std::max(needs.partials, norm_partials(rows));
    if (o.kind != Kind::convolution) continue;
    needs.cover(Convolution(cell.map(o.inputs.front()), o, batch).prepare(*on.matmul));
    if (o.bias) needs.partials = std::max(needs.partials, rows.width * partials_of(rows.rows));
  }
  return needs;
}

void forward(const CellShape& cell, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    using E = decltype(element);
    const CellPass<E> pass{cell, call, on};
    if (cell.reads_images) {
      const std::int64_t numbers = cell.input.numbers();
      const auto* images = reinterpret_cast<const float*>(on.bring(call, 0, numbers));
      convert(images, call.batch * numbers, pass.operands.value(0), on.stream);
    }
    for (std::size_t i = 0; i < cell.operations.size(); ++i) operate(pass, i);
  });
}

void backward_input(const CellShape& cell, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    cell_backward_input(CellPass<decltype(element)>{cell, call, on});
  });
}

void backward_weight(const CellShape& cell, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    cell_backward_weight(CellPass<decltype(element)>{cell, call, on});
  });
}

}  // namespace weir::cuda

// The cell on the CPU: its operations one after the other, and backwards, on the tensors that
// plan/model/cell_layout has named.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/cpu/kernels/convolution.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/kernels/map_kernels.hpp"
#include "exec/cpu/layers.hpp"
#include "exec/device/cell_operands.hpp"

namespace weir::cpu {
namespace {

using Kind = CellOperationKind;

const FeatureMap& input_map(const CellShape& cell, const CellOperation& operation) {
  return cell.map(operation.inputs.front());
}

ConvolutionSize convolution_size(const CellShape& cell, const CellOperation& o,
                                 std::int64_t batch) {
  const FeatureMap& from = input_map(cell, o);
  return {.batch = batch,
          .groups = o.groups,
          .in = from.channels,
          .in_height = from.height,
          .in_width = from.width,
          .out = o.output.channels,
          .out_height = o.output.height,
          .out_width = o.output.width,
          .kernel_height = o.kernel_y,
          .kernel_width = o.kernel_x,
          .stride_y = o.stride_y,
          .stride_x = o.stride_x,
          .pad_y = o.pad_y,
          .pad_x = o.pad_x,
          .bias = o.bias};
}

Pooling pooling(const CellShape& cell, const CellOperation& o, std::int64_t batch) {
  const FeatureMap& from = input_map(cell, o);
  // The whole map is one window.
  if (o.kind == Kind::global_pool)
    return {.batch = batch,
            .input = from,
            .output = o.output,
            .kernel_y = from.height,
            .kernel_x = from.width};
  return {.batch = batch,
          .input = from,
          .output = o.output,
          .kernel_y = o.kernel_y,
          .kernel_x = o.kernel_x,
          .stride_y = o.stride_y,
          .stride_x = o.stride_x,
          .pad_y = o.pad_y,
          .pad_x = o.pad_x};
}

using CellPass = CellOperands<float>;

Rows rows_of(const CellPass& pass, const FeatureMap& map) {
  return {pass.places(map), map.channels};
}

void norm_forward(const CellShape& cell, const CellPass& pass, std::size_t i) {
  const CellOperation& o = cell.operations[i];
  const float* x = pass.value(o.inputs.front());
  const float* moments = pass.weight(i, 2);
  if (!cell.inference) {
    channel_moments(x, rows_of(pass, o.output), pass.saved(i).floats());
    moments = pass.saved(i).floats();
  }
  batch_norm(x, rows_of(pass, o.output), moments, pass.weight(i, 0), pass.weight(i, 1),
             static_cast<float>(o.epsilon), pass.value(static_cast<int>(i) + 1));
}

void add_values(const CellPass& pass, const CellOperation& o, float* y) {
  const std::int64_t numbers = pass.numbers(o.output);
  std::memcpy(y, pass.value(o.inputs.front()), static_cast<std::size_t>(numbers) * sizeof(float));
  for (std::size_t k = 1; k < o.inputs.size(); ++k) add(pass.value(o.inputs[k]), numbers, y);
}

void concat_values(const CellShape& cell, const CellPass& pass, const CellOperation& o, float* y) {
  for (std::size_t k = 0; k < o.inputs.size(); ++k) {
    const Rows rows = rows_of(pass, cell.map(o.inputs[k]));
    put_columns(pass.value(o.inputs[k]), rows.rows, rows.channels, channels_before(cell, o, k),
                o.output.channels, y);
  }
}

void pack_values(const CellShape& cell, const CellPass& pass, const CellOperation& o,
                 std::int64_t batch, float* y) {
  for (std::size_t k = 0; k < o.inputs.size(); ++k) {
    put_columns(pass.value(o.inputs[k]), batch, cell.map(o.inputs[k]).numbers(),
                numbers_before(cell, o, k), o.output.numbers(), y);
  }
}

void operate(const CellShape& cell, const LayerCall& call, Workbench& on, const CellPass& pass,
             std::size_t i) {
  const CellOperation& o = cell.operations[i];
  const float* x = pass.value(o.inputs.front());
  float* y = pass.value(static_cast<int>(i) + 1);
  switch (o.kind) {
    case Kind::convolution:
      return on.convolutions.forward(convolution_size(cell, o, call.batch), x, pass.weight(i, 0),
                                     o.bias ? pass.weight(i, 1) : nullptr, y);
    case Kind::batch_norm:
      return norm_forward(cell, pass, i);
    case Kind::relu:
      return rectify(x, pass.numbers(o.output), y, pass.bytes(i));
    case Kind::max_pool:
      return max_pool(pooling(cell, o, call.batch), x, y, pass.bytes(i));
    case Kind::average_pool:
    case Kind::global_pool:
      return average_pool(pooling(cell, o, call.batch), x, y);
    case Kind::add:
      return add_values(pass, o, y);
    case Kind::concat:
      return concat_values(cell, pass, o, y);
    case Kind::upsample:
      return upsample(pooling(cell, o, call.batch), x, y);
    case Kind::pack:
      return pack_values(cell, pass, o, call.batch, y);
    case Kind::slice:
      return take_columns(x, call.batch, o.output.numbers(), o.offset, input_map(cell, o).numbers(),
                          y);
  }
}

// The gradient of operation i's input number k into `dx`, overwritten.
void input_gradient(const CellShape& cell, const LayerCall& call, Workbench& on,
                    const CellPass& pass, std::size_t i, std::size_t k, float* dx) {
  const CellOperation& o = cell.operations[i];
  const float* dy = pass.gradient(static_cast<int>(i) + 1);
  const std::int64_t numbers = pass.numbers(o.output);
  switch (o.kind) {
    case Kind::convolution:
      return on.convolutions.input_gradient(convolution_size(cell, o, call.batch),
                                            pass.weight(i, 0), dy, dx);
    case Kind::batch_norm:
      return batch_norm_gradient(pass.value(o.inputs.front()), rows_of(pass, o.output),
                                 pass.saved(i).floats(), pass.weight(i, 0),
                                 static_cast<float>(o.epsilon), dy, dx, pass.carried(i));
    case Kind::relu:
      return rectify_gradient(pass.bytes(i), dy, numbers, dx);
    case Kind::max_pool:
      return max_pool_gradient(pooling(cell, o, call.batch), pass.bytes(i), dy, dx);
    case Kind::average_pool:
    case Kind::global_pool:
      return average_pool_gradient(pooling(cell, o, call.batch), dy, dx);
    case Kind::add:
      std::memcpy(dx, dy, static_cast<std::size_t>(numbers) * sizeof(float));
      return;
    // Its channels lie between those of the inputs before and behind it.
    case Kind::concat: {
      const Rows rows = rows_of(pass, cell.map(o.inputs[k]));
      return take_columns(dy, rows.rows, rows.channels, channels_before(cell, o, k),
                          o.output.channels, dx);
    }
    case Kind::upsample:
      return upsample_gradient(pooling(cell, o, call.batch), dy, dx);
    case Kind::pack:
      return take_columns(dy, call.batch, cell.map(o.inputs[k]).numbers(),
                          numbers_before(cell, o, k), o.output.numbers(), dx);
    case Kind::slice: {
      // What the slice left out has no gradient from here.
      const std::int64_t row = input_map(cell, o).numbers();
      std::memset(dx, 0, static_cast<std::size_t>(call.batch * row) * sizeof(float));
      return put_columns(dy, call.batch, o.output.numbers(), o.offset, row, dx);
    }
  }
}

}  // namespace

void prepare(const CellShape& cell, std::int64_t batch, std::int64_t, Workbench& on) {
  for (const CellOperation& o : cell.operations) {
    if (o.kind == Kind::convolution) on.convolutions.prepare(convolution_size(cell, o, batch));
  }
}

void forward(const CellShape& cell, const LayerCall& call, Workbench& on) {
  const CellPass pass(cell, call);
  if (cell.reads_images) {
    const auto numbers = static_cast<std::size_t>(cell.input.numbers());
    for (std::int64_t b = 0; b < call.batch; ++b) {
      std::memcpy(pass.value(0) + b * cell.input.numbers(), call.tokens + b * call.sample_words,
                  numbers * sizeof(float));
    }
  }
  for (std::size_t i = 0; i < cell.operations.size(); ++i) operate(cell, call, on, pass, i);
}

void backward_input(const CellShape& cell, const LayerCall& call, Workbench& on) {
  const CellPass pass(cell, call);
  // The first gradient of a value overwrites and later ones add, so that no memory is cleared
  // beforehand.
  std::vector<bool> written(cell.operations.size() + 1, false);
  for (std::size_t i = cell.operations.size(); i-- > 0;) {
    const CellOperation& o = cell.operations[i];
    for (std::size_t k = 0; k < o.inputs.size(); ++k) {
      const auto value = static_cast<std::size_t>(o.inputs[k]);
      float* dx = pass.gradient(o.inputs[k]);
      if (dx == nullptr) continue;  // of images nobody asks for one
      if (!written[value]) {
        input_gradient(cell, call, on, pass, i, k, dx);
        written[value] = true;
      } else {
        // A kernel overwrites: a further summand is made apart, then added.
        input_gradient(cell, call, on, pass, i, k, pass.summand());
        add(pass.summand(), pass.numbers(cell.map(o.inputs[k])), dx);
      }
    }
  }
}

void backward_weight(const CellShape& cell, const LayerCall& call, Workbench& on) {
  const CellPass pass(cell, call);
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  for (std::size_t i = cell.operations.size(); i-- > 0;) {
    const CellOperation& o = cell.operations[i];
    const std::int64_t channels = o.output.channels;
    if (o.kind == Kind::convolution) {
      const float* dy = pass.gradient(static_cast<int>(i) + 1);
      on.convolutions.weight_gradient(convolution_size(cell, o, call.batch),
                                      pass.value(o.inputs.front()), dy, beta,
                                      pass.weight_gradient(i, 0));
      if (o.bias)
        column_sum(dy, rows_of(pass, o.output).rows, channels, beta, pass.weight_gradient(i, 1));
    } else if (o.kind == Kind::batch_norm) {
      column_sum(pass.carried(i), 1, channels, beta, pass.weight_gradient(i, 0));
      column_sum(pass.carried(i) + channels, 1, channels, beta, pass.weight_gradient(i, 1));
      // Once for each micro-batch, however often its F was run.
      const auto share = static_cast<float>(static_cast<double>(call.batch) * call.sample_share);
      const Beta kept = call.accumulate_running ? Beta::one : Beta::zero;
      add_moments(pass.saved(i).floats(), pass.weight(i, 2), channels, share, kept,
                  pass.weight_gradient(i, 2));
    }
  }
}

}  // namespace weir::cpu

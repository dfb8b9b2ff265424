// The cell: operations on maps, as one layer of a convolutional network.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plan/model/cell_layout.hpp"
#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {
namespace {

using Kind = CellOperationKind;
using Where = CellPlace::Where;
using Init = ParameterTensor::Init;

const FeatureMap& input_map(const CellShape& cell, const CellOperation& operation) {
  return cell.map(operation.inputs.front());
}

std::int64_t kernel_numbers(const CellShape& cell, const CellOperation& operation) {
  return operation.output.channels * (input_map(cell, operation).channels / operation.groups) *
         operation.kernel_y * operation.kernel_x;
}

// Weights [out, in / groups, height, width]; of a batch norm the gain, the shift, and the running
// mean and variance, which are no weights: W adds the micro-batch's sums up where others have a
// gradient, and the optimizer's action moves them.
void add_parameters(LayerTensors& t, const CellShape& cell, const CellOperation& operation) {
  const std::int64_t channels = operation.output.channels;
  if (operation.kind == Kind::convolution) {
    t.parameters.push_back({operation.name + ".weight",
                            {channels, input_map(cell, operation).channels / operation.groups,
                             operation.kernel_y, operation.kernel_x},
                            Init::he_normal,
                            true,
                            ""});
    if (operation.bias)
      t.parameters.push_back({operation.name + ".bias", {channels}, Init::zeros, false, ""});
  } else if (operation.kind == Kind::batch_norm) {
    t.parameters.push_back({operation.name + ".weight", {channels}, Init::ones, false, ""});
    t.parameters.push_back({operation.name + ".bias", {channels}, Init::zeros, false, ""});
    ParameterTensor running{
        operation.name + ".running", {2 * channels}, Init::moments, false, "", {}};
    running.running = RunningStatistics{operation.momentum, operation.output.places()};
    t.parameters.push_back(running);
  }
}

// Beside values: the mean and variance of each channel; signs; places of maxima.
void save_beside(LayerTensors& t, const CellOperation& operation) {
  switch (operation.kind) {
    case Kind::batch_norm:
      t.saved.push_back(
          {operation.name + ".statistics", 2 * operation.output.channels * 4, KeptUntil::W});
      t.carried.push_back(
          {operation.name + ".gradients", 2 * operation.output.channels * 4, KeptUntil::W});
      break;
    case Kind::relu:
      t.saved.push_back(
          {operation.name + ".signs", sign_bytes(operation.output.numbers()), KeptUntil::I});
      break;
    case Kind::max_pool:
      t.saved.push_back({operation.name + ".places", operation.output.numbers(), KeptUntil::I});
      break;
    default:
      break;
  }
}

std::string key_of(const CellOperation& operation) {
  const FeatureMap& map = operation.output;
  std::string key = fmt::format(" {}", static_cast<int>(operation.kind));
  for (const int input : operation.inputs) key += fmt::format("<{}", input);
  key += fmt::format(">{}x{}x{}", map.channels, map.height, map.width);
  const std::int64_t strides = operation.stride_y * operation.stride_x;
  if (operation.kernel_y * operation.kernel_x * strides > 1) {
    key += fmt::format(":{}x{}/{}", operation.kernel_y, operation.kernel_x, operation.stride_y);
    if (operation.stride_x != operation.stride_y) key += fmt::format("x{}", operation.stride_x);
    key += fmt::format("+{}+{}", operation.pad_y, operation.pad_x);
  }
  if (operation.groups > 1) key += fmt::format(" groups={}", operation.groups);
  if (operation.kind == Kind::slice) key += fmt::format(" from={}", operation.offset);
  return key + (operation.bias ? " bias" : "");
}

}  // namespace

std::int64_t parameter_count(const CellShape& cell) {
  std::int64_t count = 0;
  for (const CellOperation& operation : cell.operations) {
    if (operation.kind == Kind::convolution)
      count += kernel_numbers(cell, operation) + (operation.bias ? operation.output.channels : 0);
    if (operation.kind == Kind::batch_norm) count += 2 * operation.output.channels;
  }
  return count;
}

LayerTensors tensors(const CellShape& cell, const DeviceTokens& z) {
  const CellLayout layout = cell_layout(cell);
  LayerTensors t;
  if (cell.reads_images)
    t.saved.push_back({"images", cell.input.numbers() * z.element, KeptUntil::W});
  for (std::size_t v = 1; v < cell.operations.size(); ++v) {
    // What a convolution read is W's factor; what only a norm read goes with I.
    if (layout.values[v].where != Where::saved) continue;
    const CellOperation& made = cell.operations[v - 1];
    t.saved.push_back({made.name + ".output", made.output.numbers() * z.element,
                       layout.read_by_w[v] ? KeptUntil::W : KeptUntil::I});
  }
  // In the order of cell_layout()'s numbers, by which kernels find them.
  for (std::size_t i = 0; i < cell.operations.size(); ++i) {
    const CellOperation& operation = cell.operations[i];
    if (layout.gradients[i + 1].where == Where::carried) {
      t.carried.push_back({operation.name + ".output.gradient",
                           operation.output.numbers() * z.element, KeptUntil::W});
    }
    add_parameters(t, cell, operation);
    save_beside(t, operation);
  }
  t.output_bytes_per_sample = cell.map(cell.output()).numbers() * z.element;
  t.saves_input = !cell.reads_images && (layout.read_by_w[0] || layout.read_by_i[0]);
  t.input_until = layout.read_by_w[0] ? KeptUntil::W : KeptUntil::I;
  t.w_needs_output_gradient = cell.operations.back().kind == Kind::convolution;
  t.workspace_f_bytes_per_sample = layout.workspace_f * z.element;
  t.workspace_i_bytes_per_sample = layout.workspace_i * z.element;
  return t;
}

// Of convolutions: each output number is a sum of (in / groups) x height x width products.
Flops forward_flops(const CellShape& cell, std::int64_t) {
  double flops = 0;
  for (const CellOperation& operation : cell.operations) {
    if (operation.kind != Kind::convolution) continue;
    flops += 2 * static_cast<double>(kernel_numbers(cell, operation)) *
             static_cast<double>(operation.output.places());
  }
  return Flops(flops);
}

CellShape shard(CellShape cell, int) { return cell; }

std::string work_key(const CellShape& cell) {
  std::string key = fmt::format("cell {}x{}x{}{}", cell.input.channels, cell.input.height,
                                cell.input.width, cell.reads_images ? " images" : "");
  for (const CellOperation& operation : cell.operations) key += key_of(operation);
  return key;
}

}  // namespace weir::kinds

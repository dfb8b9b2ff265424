// Output maps of operations.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/cnn/cell_builder.hpp"

#include <algorithm>
#include <cassert>

#include "plan/words/units.hpp"

namespace weir::cnn {
namespace {

// Rows of windows that fit: floor((input + 2 pad - kernel) / stride) + 1.
std::int64_t windows(std::int64_t input, std::int64_t kernel, std::int64_t pad,
                     std::int64_t stride) {
  return (input + 2 * pad - kernel) / stride + 1;
}

}  // namespace

int CellBuilder::append(CellOperation operation) {
  cell_.operations.push_back(std::move(operation));
  return cell_.output();
}

int CellBuilder::windowed(CellOperationKind kind, const std::string& name, int from,
                          std::int64_t channels, const Window& window) {
  const FeatureMap& input = map(from);
  assert(input.height + 2 * window.pad_y >= window.height && "no window fits");
  assert(input.width + 2 * window.pad_x >= window.width && "no window fits");
  return append(
      {.kind = kind,
       .name = name,
       .inputs = {from},
       .output = {channels, windows(input.height, window.height, window.pad_y, window.stride_y),
                  windows(input.width, window.width, window.pad_x, window.stride_x)},
       .kernel_y = window.height,
       .kernel_x = window.width,
       .stride_y = window.stride_y,
       .stride_x = window.stride_x,
       .pad_y = window.pad_y,
       .pad_x = window.pad_x});
}

int CellBuilder::convolution(const std::string& name, int from, const Channels& channels,
                             const Window& window) {
  const int value = windowed(CellOperationKind::convolution, name, from, channels.count, window);
  cell_.operations.back().groups = channels.groups;
  cell_.operations.back().bias = channels.bias;
  return value;
}

int CellBuilder::batch_norm(const std::string& name, int from) {
  return append(
      {.kind = CellOperationKind::batch_norm, .name = name, .inputs = {from}, .output = map(from)});
}

int CellBuilder::relu(const std::string& name, int from) {
  return append(
      {.kind = CellOperationKind::relu, .name = name, .inputs = {from}, .output = map(from)});
}

int CellBuilder::max_pool(const std::string& name, int from, const Window& window) {
  assert(window.height * window.width <= 256 && "a place in the window is kept as a byte");
  return windowed(CellOperationKind::max_pool, name, from, map(from).channels, window);
}

int CellBuilder::average_pool(const std::string& name, int from, const Window& window) {
  return windowed(CellOperationKind::average_pool, name, from, map(from).channels, window);
}

// The mean of a window of one place is that place.
int CellBuilder::subsample(const std::string& name, int from, std::int64_t stride,
                           std::int64_t first) {
  const FeatureMap& input = map(from);
  assert(first < input.height && first < input.width && "some places are taken");
  return append({.kind = CellOperationKind::average_pool,
                 .name = name,
                 .inputs = {from},
                 .output = {input.channels, ceil_div(input.height - first, stride),
                            ceil_div(input.width - first, stride)},
                 .stride_y = stride,
                 .stride_x = stride,
                 // A negative padding: windows begin at `first`.
                 .pad_y = -first,
                 .pad_x = -first});
}

int CellBuilder::global_pool(const std::string& name, int from) {
  return append({.kind = CellOperationKind::global_pool,
                 .name = name,
                 .inputs = {from},
                 .output = {map(from).channels, 1, 1}});
}

int CellBuilder::add(const std::string& name, std::vector<int> from) {
  const FeatureMap output = map(from.front());
  assert(std::ranges::all_of(from, [&](int value) { return map(value) == output; }) &&
         "only equal maps are added");
  return append(
      {.kind = CellOperationKind::add, .name = name, .inputs = std::move(from), .output = output});
}

int CellBuilder::concat(const std::string& name, std::vector<int> from) {
  FeatureMap output = map(from.front());
  output.channels = 0;
  for (const int value : from) output.channels += map(value).channels;
  return append({.kind = CellOperationKind::concat,
                 .name = name,
                 .inputs = std::move(from),
                 .output = output});
}

int CellBuilder::upsample(const std::string& name, int from, std::int64_t factor) {
  const FeatureMap& input = map(from);
  return append({.kind = CellOperationKind::upsample,
                 .name = name,
                 .inputs = {from},
                 .output = {input.channels, input.height * factor, input.width * factor},
                 .stride_y = factor,
                 .stride_x = factor});
}

int CellBuilder::pack(const std::string& name, std::vector<int> from) {
  FeatureMap output{0, 1, 1};
  for (const int value : from) output.channels += map(value).numbers();
  return append(
      {.kind = CellOperationKind::pack, .name = name, .inputs = std::move(from), .output = output});
}

int CellBuilder::slice(const std::string& name, int from, std::int64_t offset,
                       const FeatureMap& output) {
  assert(offset + output.numbers() <= map(from).numbers() && "a slice of what is there");
  return append({.kind = CellOperationKind::slice,
                 .name = name,
                 .inputs = {from},
                 .output = output,
                 .offset = offset});
}

}  // namespace weir::cnn

// Cells and their classifier in double precision, written from the definitions number by number,
// sharing nothing with the kernels under test but the shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/model/model.hpp"

namespace weir::reference {

using Matrix = std::vector<double>;

struct Images {
  std::int64_t batch = 1;
  const std::int32_t* samples = nullptr;
  std::int64_t words = 0;  // of a sample
};

// Number (b, y, x, c) of maps with channels last.
inline std::size_t at(const FeatureMap& map, std::int64_t b, std::int64_t y, std::int64_t x,
                      std::int64_t c) {
  return static_cast<std::size_t>(((b * map.height + y) * map.width + x) * map.channels + c);
}

inline Matrix empty(const FeatureMap& map, std::int64_t batch) {
  return Matrix(static_cast<std::size_t>(batch * map.numbers()));
}

// visit(b, y, x, c) of all numbers.
template <class Visit>
void each_number(const FeatureMap& map, std::int64_t batch, Visit visit) {
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t y = 0; y < map.height; ++y)
      for (std::int64_t x = 0; x < map.width; ++x)
        for (std::int64_t c = 0; c < map.channels; ++c) visit(b, y, x, c);
}

// visit(y, x, ky, kx) of the window's places that lie on the map.
template <class Visit>
void each_place(const CellOperation& o, const FeatureMap& map, std::int64_t oy, std::int64_t ox,
                Visit visit) {
  for (std::int64_t ky = 0; ky < o.kernel_y; ++ky) {
    for (std::int64_t kx = 0; kx < o.kernel_x; ++kx) {
      const std::int64_t y = oy * o.stride_y + ky - o.pad_y;
      const std::int64_t x = ox * o.stride_x + kx - o.pad_x;
      if (y >= 0 && y < map.height && x >= 0 && x < map.width) visit(y, x, ky, kx);
    }
  }
}

inline Matrix convolve(const CellOperation& o, const FeatureMap& from, const Matrix& in,
                       const Matrix& w, const Matrix* bias, std::int64_t batch) {
  Matrix out = empty(o.output, batch);
  const std::int64_t in_each = from.channels / o.groups, out_each = o.output.channels / o.groups;
  each_number(o.output, batch, [&](auto b, auto oy, auto ox, auto c) {
    double sum = bias != nullptr ? (*bias)[static_cast<std::size_t>(c)] : 0;
    each_place(o, from, oy, ox, [&](auto y, auto x, auto ky, auto kx) {
      for (std::int64_t i = 0; i < in_each; ++i) {
        const std::int64_t weight = ((c * in_each + i) * o.kernel_y + ky) * o.kernel_x + kx;
        sum +=
            in[at(from, b, y, x, c / out_each * in_each + i)] * w[static_cast<std::size_t>(weight)];
      }
    });
    out[at(o.output, b, oy, ox, c)] = sum;
  });
  return out;
}

inline Matrix normalise(const CellOperation& o, const Matrix& in, const Matrix& gain,
                        const Matrix& shift) {
  Matrix out(in.size());
  const auto channels = static_cast<std::size_t>(o.output.channels);
  const std::size_t places = in.size() / channels;  // a whole number
  const auto rows = static_cast<double>(places);
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (std::size_t i = c; i < in.size(); i += channels) mean += in[i] / rows;
    for (std::size_t i = c; i < in.size(); i += channels)
      variance += (in[i] - mean) * (in[i] - mean) / rows;
    for (std::size_t i = c; i < in.size(); i += channels)
      out[i] = (in[i] - mean) / std::sqrt(variance + o.epsilon) * gain[c] + shift[c];
  }
  return out;
}

inline Matrix pool(const CellOperation& o, const FeatureMap& from, const Matrix& in,
                   std::int64_t batch) {
  Matrix out = empty(o.output, batch);
  CellOperation window = o;
  if (o.kind == CellOperationKind::global_pool) {
    window.kernel_y = from.height;
    window.kernel_x = from.width;
  }
  each_number(o.output, batch, [&](auto b, auto oy, auto ox, auto c) {
    double sum = 0, largest = -std::numeric_limits<double>::infinity(), count = 0;
    each_place(window, from, oy, ox, [&](auto y, auto x, auto, auto) {
      const double value = in[at(from, b, y, x, c)];
      largest = std::max(largest, value);
      sum += value;
      ++count;
    });
    const bool mean = o.kind != CellOperationKind::max_pool;
    out[at(o.output, b, oy, ox, c)] = mean ? sum / count : largest;
  });
  return out;
}

inline Matrix cell(const CellShape& shape, const std::vector<Matrix>& weights, Matrix x,
                   std::int64_t batch) {
  std::vector<Matrix> values{std::move(x)};
  std::size_t parameter = 0;
  for (const CellOperation& o : shape.operations) {
    const FeatureMap& from = shape.map(o.inputs.front());
    const Matrix& in = values[static_cast<std::size_t>(o.inputs.front())];
    Matrix out = empty(o.output, batch);
    switch (o.kind) {
      case CellOperationKind::convolution:
        out = convolve(o, from, in, weights[parameter], o.bias ? &weights[parameter + 1] : nullptr,
                       batch);
        parameter += o.bias ? 2 : 1;
        break;
      case CellOperationKind::batch_norm:
        out = normalise(o, in, weights[parameter], weights[parameter + 1]);
        parameter += 3;
        break;
      case CellOperationKind::relu:
        for (std::size_t i = 0; i < in.size(); ++i) out[i] = std::max(in[i], 0.0);
        break;
      case CellOperationKind::max_pool:
      case CellOperationKind::average_pool:
      case CellOperationKind::global_pool:
        out = pool(o, from, in, batch);
        break;
      case CellOperationKind::add:
        for (const int input : o.inputs) {
          for (std::size_t i = 0; i < out.size(); ++i)
            out[i] += values[static_cast<std::size_t>(input)][i];
        }
        break;
      case CellOperationKind::concat:
        each_number(o.output, batch, [&](auto b, auto oy, auto ox, auto c) {
          std::int64_t channel = c;
          for (const int input : o.inputs) {
            const FeatureMap& map = shape.map(input);
            if (channel >= 0 && channel < map.channels) {
              out[at(o.output, b, oy, ox, c)] =
                  values[static_cast<std::size_t>(input)][at(map, b, oy, ox, channel)];
            }
            channel -= map.channels;
          }
        });
        break;
      case CellOperationKind::pack: {
        const auto row = static_cast<std::size_t>(o.output.numbers());
        std::size_t from = 0;
        for (const int input : o.inputs) {
          const Matrix& part = values[static_cast<std::size_t>(input)];
          const std::size_t each = part.size() / static_cast<std::size_t>(batch);
          for (std::size_t i = 0; i < part.size(); ++i)
            out[i / each * row + from + i % each] = part[i];
          from += each;
        }
        break;
      }
      case CellOperationKind::slice: {
        const auto row = static_cast<std::size_t>(from.numbers());
        const auto each = static_cast<std::size_t>(o.output.numbers());
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] = in[i / each * row + static_cast<std::size_t>(o.offset) + i % each];
        break;
      }
      case CellOperationKind::upsample:
        each_number(o.output, batch, [&](auto b, auto oy, auto ox, auto c) {
          out[at(o.output, b, oy, ox, c)] = in[at(from, b, oy / o.stride_y, ox / o.stride_x, c)];
        });
        break;
    }
    values.push_back(std::move(out));
  }
  return values.back();
}

// Of a classifier the mean loss, one number.
inline Matrix cell_forward(const Layer& layer, const std::vector<Matrix>& weights, Matrix x,
                           const Images& images) {
  if (const auto* shape = std::get_if<CellShape>(&layer.shape)) {
    if (shape->reads_images) {
      x = empty(shape->input, images.batch);
      const auto numbers = static_cast<std::size_t>(shape->input.numbers());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto sample = static_cast<std::int64_t>(i / numbers) * images.words;
        x[i] =
            std::bit_cast<float>(images.samples[sample + static_cast<std::int64_t>(i % numbers)]);
      }
    }
    return cell(*shape, weights, std::move(x), images.batch);
  }
  const auto& head = std::get<HeadShape>(layer.shape);
  const auto classes = static_cast<std::size_t>(head.vocabulary);
  const auto hidden = static_cast<std::size_t>(head.hidden);
  double loss = 0;
  for (std::int64_t b = 0; b < images.batch; ++b) {
    Matrix logits = weights[1];
    for (std::size_t k = 0; k < classes; ++k) {
      for (std::size_t i = 0; i < hidden; ++i)
        logits[k] += weights[0][k * hidden + i] * x[static_cast<std::size_t>(b) * hidden + i];
    }
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    const float label = std::bit_cast<float>(images.samples[(b + 1) * images.words - 1]);
    loss += std::log(sum) - logits[static_cast<std::size_t>(label)];
  }
  return {loss / static_cast<double>(images.batch)};
}

}  // namespace weir::reference

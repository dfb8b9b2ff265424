// The rates of single kernels on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/kernel_rates.hpp"

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

struct Tile {
  std::int64_t rows, columns;
};

BytesPerSecond memory_rate(const Device& device) {
  return BytesPerSecond(device.memory_bandwidth.count() * device.kernels->bandwidth_efficiency);
}

// Whether rows of a head's factors begin anywhere in a word of 16 bytes, as which matrix units are
// fed: 108 or 150 numbers of 2 bytes do. Weights are padded by those who choose them.
bool is_unaligned(const MatmulShape& x, Dtype dtype) {
  const std::int64_t word = 16 / bytes_per_element(dtype);
  return x.batch > 1 && (x.k % word != 0 || x.n % word != 0);
}

// Waves of whole tiles, all multiprocessors at work in each.
Seconds wave_time(const MatmulShape& x, Tile tile, const Device& device, FlopsPerSecond rate) {
  const auto tiles =
      static_cast<double>(x.batch * ceil_div(x.m, tile.rows) * ceil_div(x.n, tile.columns));
  const double wave =
      2.0 * static_cast<double>(tile.rows * tile.columns * x.k) * device.multiprocessors;
  return Flops(std::ceil(tiles / device.multiprocessors) * wave) / rate;
}

bool in_fp8(const Device& device, ProductPrecision precision) {
  return precision == ProductPrecision::fp8 && device.peak_fp8.count() > 0;
}

const ProductRates& product_rates(const Device& device, ProductPrecision precision) {
  const KernelModel& model = *device.kernels;
  return in_fp8(device, precision) && model.fp8 ? *model.fp8 : model.products;
}

// Bytes moved for a number of the product; one that is added to fp32 numbers reads and writes
// those.
std::int64_t result_bytes(Dtype dtype, ProductForm form) {
  return form.target == ProductTarget::accumulated ? 2 * 4 : bytes_per_element(dtype);
}

// Both factors are read, and the product written.
Bytes product_bytes(const MatmulShape& x, const Device& device, Dtype dtype, ProductForm form) {
  const std::int64_t factor = in_fp8(device, form.precision) ? 1 : bytes_per_element(dtype);
  return Bytes(x.batch *
               ((x.m * x.k + x.k * x.n) * factor + x.m * x.n * result_bytes(dtype, form)));
}

// Of the peak, with `seen` of the keys visited by a row on average.
double core_efficiency(const FusedCore& x, double seen, const Device& device) {
  const KernelModel& model = *device.kernels;
  if (model.attention.empty()) return model.products.efficiency;
  const auto found = model.attention.find(x.library);
  const AttentionRates& rates =
      found != model.attention.end() ? found->second : model.attention.begin()->second;
  const double keys = static_cast<double>(x.keys) * seen;
  const auto d = static_cast<double>(x.d);
  return (x.products > 2 ? rates.backward : rates.forward) * keys / (keys + rates.keys) * d /
         (d + rates.head);
}

}  // namespace

FlopsPerSecond peak_rate(const Device& device, Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return device.peak_fp32;
    case Dtype::tf32:
      return device.peak_tf32.count() > 0 ? device.peak_tf32 : device.peak_fp32;
    case Dtype::fp16:
      if (device.peak_fp16.count() > 0) return device.peak_fp16;
      [[fallthrough]];
    default:
      return device.peak_bf16.count() > 0 ? device.peak_bf16 : device.peak_fp32;
  }
}

FlopsPerSecond peak_rate(const Device& device, Dtype dtype, ProductPrecision precision) {
  return in_fp8(device, precision) ? device.peak_fp8 : peak_rate(device, dtype);
}

Seconds matmul_time(const MatmulShape& x, const Device& device, Dtype dtype, ProductForm form) {
  const KernelModel& model = *device.kernels;
  const ProductRates& rates = product_rates(device, form.precision);
  // Rows that do not begin on 16 bytes are loaded in smaller pieces.
  const double efficiency = rates.efficiency * (is_unaligned(x, dtype) ? rates.unaligned : 1);
  const FlopsPerSecond rate(peak_rate(device, dtype, form.precision).count() * efficiency);
  const Tile whole{model.tile_rows, model.tile_columns};
  // Libraries turn the tile where that wastes less of the last wave (docs/theory.md 5.3).
  Seconds products = std::min(wave_time(x, whole, device, rate),
                              wave_time(x, {whole.columns, whole.rows}, device, rate));
  if (rates.half_tile > 0) {
    const Tile half{whole.rows, ceil_div(whole.columns, 2)};
    const FlopsPerSecond slower(rate.count() * rates.half_tile);
    products = std::min(products, wave_time(x, half, device, slower));
  }
  // Results leave while later tiles are computed: only a share of the writing is seen.
  const Seconds writing =
      Bytes(x.batch * x.m * x.n * result_bytes(dtype, form)) / memory_rate(device);
  // Roofline (docs/theory.md 5.4): whichever of products and memory takes longer.
  return std::max(products + writing * rates.exposed_output,
                  stream_time(product_bytes(x, device, dtype, form), device));
}

Seconds fused_core_time(const FusedCore& x, const Device& device, Dtype dtype) {
  const int side = device.kernels->tile_rows;
  const auto across = static_cast<double>(ceil_div(x.keys, side));
  // Tiles of keys that a tile of rows visits, as a share of all: on average, the longest being 1.
  const double seen = x.causal ? (1 + 1 / across) / 2 : 1;
  const auto d = static_cast<double>(x.d);
  const double longest = 2.0 * side * side * across * d * x.products;
  const double mean =
      static_cast<double>(x.heads * ceil_div(x.rows, side)) / device.multiprocessors * seen;
  // Tiles of unequal length: the last ones end half a tile later than the mean.
  const double tiles = std::max(mean + 0.5, 1.0);
  // A multiprocessor's share of the device's rate.
  const double rate =
      peak_rate(device, dtype).count() * core_efficiency(x, seen, device) / device.multiprocessors;
  const Seconds products = Flops(tiles * longest) / FlopsPerSecond(rate);
  return std::max(products, stream_time(Bytes(x.moved * bytes_per_element(dtype)), device));
}

Seconds stream_time(Bytes bytes, const Device& device) {
  const KernelModel& model = *device.kernels;
  return std::max(model.start + bytes / memory_rate(device), model.floor);
}

}  // namespace weir

// The rates of single kernels on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/kernel_rates.hpp"

#include <algorithm>
#include <cmath>

namespace weir {
namespace {

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Both factors are read, and the product written; one that is added to fp32 numbers reads and
// writes those.
Bytes product_bytes(const MatmulShape& x, const Device& device, Dtype dtype, ProductForm form) {
  const bool fp8 = form.precision == ProductPrecision::fp8 && device.peak_fp8.count() > 0;
  const std::int64_t factor = fp8 ? 1 : bytes_per_element(dtype);
  const std::int64_t result =
      form.target == ProductTarget::accumulated ? 2 * 4 : bytes_per_element(dtype);
  return Bytes(x.batch * ((x.m * x.k + x.k * x.n) * factor + x.m * x.n * result));
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
  const bool fp8 = precision == ProductPrecision::fp8 && device.peak_fp8.count() > 0;
  return fp8 ? device.peak_fp8 : peak_rate(device, dtype);
}

Seconds matmul_time(const MatmulShape& x, const Device& device, Dtype dtype, ProductForm form) {
  const KernelModel& model = *device.kernels;
  const auto tiles =
      static_cast<double>(x.batch * up(x.m, model.tile_rows) * up(x.n, model.tile_columns));
  const double waves = std::ceil(tiles / device.multiprocessors);
  const double wave = 2.0 * model.tile_rows * model.tile_columns * static_cast<double>(x.k) *
                      device.multiprocessors;
  const FlopsPerSecond rate(peak_rate(device, dtype, form.precision).count() *
                            model.matrix_efficiency);
  const Seconds products = Flops(waves * wave) / rate;
  return std::max(products, stream_time(product_bytes(x, device, dtype, form), device));
}

Seconds fused_core_time(const FusedCore& x, const Device& device, Dtype dtype) {
  const KernelModel& model = *device.kernels;
  const auto tiles = static_cast<double>(up(x.keys, model.tile_columns));
  const double seen = x.causal ? (1 + 1 / tiles) / 2 : 1;
  const double tile =
      2.0 * model.tile_rows * model.tile_columns * static_cast<double>(x.d) * x.products;
  const double waves = std::ceil(static_cast<double>(x.heads * up(x.rows, model.tile_rows)) /
                                 device.multiprocessors);
  const Seconds products =
      Flops(waves * device.multiprocessors * tiles * seen * tile) /
      FlopsPerSecond(peak_rate(device, dtype).count() * model.matrix_efficiency);
  return std::max(products, stream_time(Bytes(x.moved * bytes_per_element(dtype)), device));
}

Seconds stream_time(Bytes bytes, const Device& device) {
  const KernelModel& model = *device.kernels;
  const Seconds moved =
      bytes / BytesPerSecond(device.memory_bandwidth.count() * model.bandwidth_efficiency);
  return std::max(moved, model.floor);
}

}  // namespace weir

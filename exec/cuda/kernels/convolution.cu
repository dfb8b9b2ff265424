// A thread makes 16 bytes of neighbouring channels, or one number.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/convolution.hpp"
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/maps.cuh"

namespace weir::cuda {
namespace {

// `place`: of the run's first output in its image.
template <class E, int L>
__global__ void unfold_windows_kernel(const E* x, Filter f, int first_image, unsigned place,
                                      unsigned count, E* rows) {
  const Windows& w = f.windows;
  const auto padded = static_cast<unsigned>(f.padded), seen = static_cast<unsigned>(f.seen());
  const unsigned vectors = static_cast<unsigned>(f.groups) * (padded / L);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, row = i / vectors;
  if (row >= count) return;
  const unsigned number = i % vectors * L, group = number / padded, in_group = number % padded;
  const unsigned tap = in_group / seen, channel = group * seen + in_group % seen;
  const unsigned output = place + row, across = static_cast<unsigned>(w.out_width);
  const unsigned places = static_cast<unsigned>(w.out_height) * across;
  const auto here = static_cast<int>(output % places);
  const int image = first_image + static_cast<int>(output / places);
  const int y = here / w.out_width * w.stride_y - w.pad_y + static_cast<int>(tap) / w.kernel_x;
  const int column = here % w.out_width * w.stride_x - w.pad_x + static_cast<int>(tap) % w.kernel_x;
  float value[L] = {};
  // Zeros beside the map, and behind the last tap.
  if (tap < static_cast<unsigned>(f.taps()) && y >= 0 && y < w.in_height && column >= 0 &&
      column < w.in_width) {
    load<L>(x + place_in(w, image, y, column) + channel, value);
  }
  store<L>(rows + std::int64_t{i} * L, value);
}

template <class E, int L>
__global__ void fold_windows_kernel(const float* rows, Filter f, LineBand band, E* dx) {
  const Windows& w = f.windows;
  const Spot at = spot_of<L>(band.count, w.in_width, w.channels);
  if (!at.there) return;
  const int y = band.first + at.y, group = at.c / f.seen();
  const std::int64_t row_numbers = std::int64_t{f.groups} * f.padded;
  const std::int64_t in_row = std::int64_t{group} * f.padded + at.c % f.seen();
  const Reach lines = outputs_that_see(y, w.out_height, w.kernel_y, w.stride_y, w.pad_y);
  const Reach columns = outputs_that_see(at.x, w.out_width, w.kernel_x, w.stride_x, w.pad_x);
  for (int image = static_cast<int>(blockIdx.y); image < band.images;
       image += static_cast<int>(gridDim.y)) {
    float sum[L] = {};
    for (int oy = lines.first; oy <= lines.last; ++oy) {
      const std::int64_t line = std::int64_t{image} * band.outputs + oy - band.first_output;
      const int tap_y = y + w.pad_y - oy * w.stride_y;
      for (int ox = columns.first; ox <= columns.last; ++ox) {
        const int tap = tap_y * w.kernel_x + at.x + w.pad_x - ox * w.stride_x;
        float value[L];
        load<L>(rows + (line * w.out_width + ox) * row_numbers + in_row + tap * f.seen(), value);
        for (int k = 0; k < L; ++k) sum[k] += value[k];
      }
    }
    store<L>(dx + place_in(w, band.image + image, y, at.x) + at.c, sum);
  }
}

template <class E>
__global__ void order_weights_kernel(const E* weights, Filter f, E* ordered) {
  const std::int64_t i = thread_index(), padded = f.padded, output = i / padded;
  if (output >= f.outputs) return;
  const int in_row = static_cast<int>(i % padded), tap = in_row / f.seen();
  const std::int64_t channel = in_row % f.seen();
  const bool there = tap < f.taps();
  ordered[i] =
      there ? weights[(output * f.seen() + channel) * f.taps() + tap] : static_cast<E>(0.0F);
}

__global__ void add_ordered_kernel(const float* ordered, Filter f, Beta beta, float* dw) {
  const std::int64_t i = thread_index(), each = std::int64_t{f.seen()} * f.taps();
  const std::int64_t output = i / each;
  if (output >= f.outputs) return;
  const int in_row = static_cast<int>(i % each), tap = in_row % f.taps();
  const std::int64_t channel = in_row / f.taps();
  const float made = ordered[output * f.padded + tap * f.seen() + channel];
  dw[i] = beta == Beta::one ? dw[i] + made : made;
}

}  // namespace

template <class E>
void unfold_windows(const E* x, const Filter& f, const PlaceRun& run, E* rows,
                    cudaStream_t stream) {
  if (run.count * f.row() > kMostItems) throw RunFailed("windows have too many numbers");
  const auto image = static_cast<int>(run.first / f.places());
  const auto place = static_cast<unsigned>(run.first % f.places());
  with_lanes<E>(takes_vectors<E>(f.seen(), x, rows), [&](auto lanes) {
    constexpr int L = lanes;
    unfold_windows_kernel<E, L><<<blocks_for(run.count * f.row() / L), kThreads, 0, stream>>>(
        x, f, image, place, static_cast<unsigned>(run.count), rows);
  });
  check_launch("unfold_windows");
}
template void unfold_windows(const float*, const Filter&, const PlaceRun&, float*, cudaStream_t);
template void unfold_windows(const Bf16*, const Filter&, const PlaceRun&, Bf16*, cudaStream_t);

template <class E>
void fold_windows(const float* rows, const Filter& f, const LineBand& band, E* dx,
                  cudaStream_t stream) {
  const std::int64_t places = std::int64_t{band.count} * f.windows.in_width;
  with_lanes<E>(takes_vectors<E>(f.seen(), dx, rows), [&](auto lanes) {
    constexpr int L = lanes;
    const dim3 grid = grid_of_maps(places, f.windows.channels, L, band.images);
    fold_windows_kernel<E, L><<<grid, kThreads, 0, stream>>>(rows, f, band, dx);
  });
  check_launch("fold_windows");
}
template void fold_windows(const float*, const Filter&, const LineBand&, float*, cudaStream_t);
template void fold_windows(const float*, const Filter&, const LineBand&, Bf16*, cudaStream_t);

template <class E>
void order_weights(const E* weights, const Filter& f, E* ordered, cudaStream_t stream) {
  const unsigned blocks = blocks_for(std::int64_t{f.outputs} * f.padded);
  order_weights_kernel<E><<<blocks, kThreads, 0, stream>>>(weights, f, ordered);
  check_launch("order_weights");
}
template void order_weights(const float*, const Filter&, float*, cudaStream_t);
template void order_weights(const Bf16*, const Filter&, Bf16*, cudaStream_t);

void add_ordered(const float* ordered, const Filter& f, Beta beta, float* dw, cudaStream_t stream) {
  const unsigned blocks = blocks_for(std::int64_t{f.outputs} * f.seen() * f.taps());
  add_ordered_kernel<<<blocks, kThreads, 0, stream>>>(ordered, f, beta, dw);
  check_launch("add_ordered");
}

}  // namespace weir::cuda

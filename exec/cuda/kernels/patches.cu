// A thread: one number of a patch, or L columns of an image's row.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/patches.hpp"

namespace weir::cuda {
namespace {

template <class E>
__global__ void unfold_kernel(const float* images, PatchGrid grid, E* patches) {
  const std::int64_t i = thread_index();
  if (i >= grid.images * grid.patches() * grid.numbers()) return;
  // Neighbouring threads write neighbouring numbers; what they read lies `channels` apart, in lines
  // that the other channels' threads read too.
  const std::int64_t number = i % grid.numbers(), of_all = i / grid.numbers();
  const std::int64_t image = of_all / grid.patches(), patch = of_all % grid.patches();
  const std::int64_t pixel = number % (grid.side * grid.side);
  const std::int64_t channel = number / (grid.side * grid.side);
  const std::int64_t y = patch / grid.across() * grid.side + pixel / grid.side;
  const std::int64_t x = patch % grid.across() * grid.side + pixel % grid.side;
  const std::int64_t from = ((image * grid.height + y) * grid.width + x) * grid.channels + channel;
  patches[i] = static_cast<E>(images[from]);
}

template <class E, int L>
__global__ void place_patches_kernel(PatchTables<E> tables, std::int64_t images, Rows image,
                                     StepMask given, E* y) {
  const std::int64_t i = thread_index() * L;
  const std::int64_t numbers = image.rows * image.width;
  if (i >= images * numbers) return;
  const std::int64_t place = i % numbers, j = i % image.width;
  float value[L], beside[L], position[L], factor[L];
  if (place < image.width) {
    // No product was made of the class token's row: whatever stands there is overwritten.
    load<L>(tables.class_token + j, value);
  } else {
    load<L>(y + i, value);
    load<L>(tables.bias + j, beside);
    for (int k = 0; k < L; ++k) value[k] += beside[k];
  }
  load<L>(tables.position + place, position);
  factors<L>(at_this_step(given), static_cast<std::uint64_t>(i), factor);
  for (int k = 0; k < L; ++k) value[k] = (value[k] + position[k]) * factor[k];
  store<L>(y + i, value);
}

}  // namespace

template <class E>
void unfold(const float* images, const PatchGrid& grid, E* patches, cudaStream_t stream) {
  const std::int64_t n = grid.images * grid.patches() * grid.numbers();
  unfold_kernel<E><<<blocks_for(n), kThreads, 0, stream>>>(images, grid, patches);
  check_launch("unfold");
}
template void unfold(const float*, const PatchGrid&, float*, cudaStream_t);
template void unfold(const float*, const PatchGrid&, Bf16*, cudaStream_t);

template <class E>
void place_patches(const PatchTables<E>& tables, std::int64_t images, Rows image,
                   const StepMask& mask, E* y, cudaStream_t stream) {
  const bool vectors =
      takes_vectors<E>(image.width, tables.class_token, tables.bias, tables.position, y);
  with_lanes<E>(vectors, [&](auto lanes) {
    constexpr int L = lanes;
    const unsigned blocks = blocks_for(images * image.rows * image.width, kThreads * L);
    place_patches_kernel<E, L><<<blocks, kThreads, 0, stream>>>(tables, images, image, mask, y);
  });
  check_launch("place_patches");
}
template void place_patches(const PatchTables<float>&, std::int64_t, Rows, const StepMask&, float*,
                            cudaStream_t);
template void place_patches(const PatchTables<Bf16>&, std::int64_t, Rows, const StepMask&, Bf16*,
                            cudaStream_t);

}  // namespace weir::cuda

// Patches, class token and positions on CUDA, and their gradients. Rows 1.. of an image's output
// are one product of its unfolded patches and the weights, [out, channel x y x x].
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/patch_embedding.hpp"

#include <numeric>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/kernels/dropout.hpp"
#include "exec/cuda/kernels/patches.hpp"
#include "exec/cuda/kernels/sums.hpp"

namespace weir::cuda {
namespace {

enum PatchWeight : std::uint8_t { class_token, patch_weight, patch_bias, position };

struct PatchSize {
  std::int64_t images, rows, h, patch;  // rows of an image, the class token's first
  PatchSize(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length)
      : images(batch), rows(seq_length), h(shape.hidden), patch(shape.patch) {}
  [[nodiscard]] std::int64_t patches() const { return rows - 1; }
  [[nodiscard]] std::int64_t numbers() const { return rows * h; }  // of an image's output
  [[nodiscard]] std::int64_t unfolded() const { return patches() * patch; }
  [[nodiscard]] Linear linear() const { return {patches(), patch, h}; }
  // An image's output begins behind the class token's row, and its patches behind other images'.
  [[nodiscard]] std::int64_t begins() const { return std::gcd(h, unfolded()); }
  // Of all images: between their rows stand the class tokens'.
  [[nodiscard]] Gemm product() const {
    Gemm gemm = linear().forward(Epilogue::none);
    gemm.batch = images;
    gemm.a_step = unfolded();
    gemm.c_step = numbers();
    gemm.begins = begins();
    return gemm;
  }
  // Of one image.
  [[nodiscard]] Gemm weight_gradient(bool accumulate) const {
    Gemm gemm = linear().weight(accumulate, Epilogue::none);
    gemm.begins = begins();
    return gemm;
  }
};

// Sums over images of an output's gradient, and room for the sums on the way there.
std::int64_t floats_of_sums(const PatchSize& z) {
  return (1 + partials_of(z.images)) * z.numbers() + z.h * partials_of(z.patches());
}

template <class E>
void sum_rows(const LayerCall& call, const PatchSize& z, const E* dy, const Workbench& on) {
  float* const sums = on.partials;
  float* const partials = sums + z.numbers();
  const auto gradient = [&call](PatchWeight which) { return call.gradients[which].floats(); };
  column_sum<E>(dy, {z.images, z.numbers()}, Beta::zero, partials, sums, on.stream);
  // Every row has its position; the first is the class token's, the others have the bias.
  accumulate({{{sums, gradient(position), z.numbers()}, {sums, gradient(class_token), z.h}}, 2},
             beta(call), on.stream);
  column_sum<float>(sums + z.h, {z.patches(), z.h}, beta(call), partials, gradient(patch_bias),
                    on.stream);
}

}  // namespace

ScratchNeeds prepare_patches(const EmbeddingShape& shape, std::int64_t batch,
                             std::int64_t seq_length, const Workbench& on) {
  const PatchSize z(shape, batch, seq_length);
  on.matmul->prepare(z.product());
  for (const bool adds : {false, true}) on.matmul->prepare(z.weight_gradient(adds));
  return {.words = batch * shape.image.numbers(), .partials = floats_of_sums(z)};
}

void embed_patches(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const PatchSize z(shape, call.batch, call.seq_length);
  const FeatureMap& image = shape.image;
  const PatchGrid grid{call.batch, image.height, image.width, image.channels, shape.patch_side};
  const auto* pixels = reinterpret_cast<const float*>(on.bring(call, 0, image.numbers()));
  on.in_elements([&](auto element) {
    using E = decltype(element);
    const auto weight = [&call](PatchWeight which) { return elements<E>(call.weights[which]); };
    E *patches = elements<E>(call.saved[0]), *y = elements<E>(call.output);
    unfold<E>(pixels, grid, patches, on.stream);
    on.multiply(z.product(), {patches, weight(patch_weight), y + z.h});
    place_patches<E>({weight(class_token), weight(patch_bias), weight(position)}, z.images,
                     {z.rows, z.h}, on.mask(call, shape.dropout, DropoutSite::embedding), y,
                     on.stream);
  });
}

void embed_patches_backward_weight(const EmbeddingShape& shape, const LayerCall& call,
                                   const Workbench& on) {
  const PatchSize z(shape, call.batch, call.seq_length);
  on.in_elements([&](auto element) {
    using E = decltype(element);
    // Nobody reads the output's gradient after this pass, so it is masked where it lies.
    E* dy = elements<E>(call.output_gradient);
    const StepMask mask = on.mask(call, shape.dropout, DropoutSite::embedding);
    if (mask.mask.active()) dropout<E>(mask, 0, dy, z.images * z.numbers(), dy, on.stream);
    sum_rows<E>(call, z, dy, on);
    // Images in ascending order; the step's first overwrites.
    for (std::int64_t b = 0; b < z.images; ++b) {
      on.multiply(z.weight_gradient(call.accumulate || b > 0),
                  {dy + b * z.numbers() + z.h, elements<E>(call.saved[0]) + b * z.unfolded(),
                   call.gradients[patch_weight].floats()});
    }
  });
}

}  // namespace weir::cuda

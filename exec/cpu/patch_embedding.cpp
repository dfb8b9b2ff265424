// Patches, class token and positions, and their gradients, image by image.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/patch_embedding.hpp"

#include <algorithm>
#include <cstring>

#include "exec/cpu/kernels/convolution.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {
namespace {

enum PatchWeight : std::uint8_t { class_token, patch_weight, patch_bias, position };

// One image's: its rows are rows 1.. of a sample's output, so samples are not convolved together.
ConvolutionSize patch_convolution(const EmbeddingShape& shape) {
  const std::int64_t side = shape.patch_side;
  const std::int64_t down = shape.image.height / side, across = shape.image.width / side;
  return {.in = shape.image.channels,
          .in_height = down * side,
          .in_width = across * side,
          .out = shape.hidden,
          .out_height = down,
          .out_width = across,
          .kernel_height = side,
          .kernel_width = side,
          .stride_y = side,
          .stride_x = side,
          .bias = true};
}

// The image's upper left part that is whole patches.
void take_patches(const EmbeddingShape& shape, const ConvolutionSize& size,
                  const std::int32_t* image, float* patches) {
  const std::int64_t row = size.in_width * size.in;
  for (std::int64_t y = 0; y < size.in_height; ++y) {
    std::memcpy(patches + y * row, image + y * shape.image.width * shape.image.channels,
                static_cast<std::size_t>(row) * sizeof(float));
  }
}

}  // namespace

void prepare_patches(const EmbeddingShape& shape, Workbench& on) {
  on.convolutions.prepare(patch_convolution(shape));
}

void embed_patches(const EmbeddingShape& shape, const LayerCall& call, Workbench& on) {
  const ConvolutionSize size = patch_convolution(shape);
  const std::int64_t h = shape.hidden, numbers = call.seq_length * h;
  for (std::int64_t b = 0; b < call.batch; ++b) {
    float* patches = call.saved[0].floats() + b * (call.seq_length - 1) * shape.patch;
    float* out = call.output.floats() + b * numbers;
    take_patches(shape, size, sample_tokens(call, b), patches);
    std::memcpy(out, call.weights[class_token].floats(), static_cast<std::size_t>(h) * 4);
    on.convolutions.forward(size, patches, call.weights[patch_weight].floats(),
                            call.weights[patch_bias].floats(), out + h);
    add(call.weights[position].floats(), numbers, out);
  }
  const DropoutMask mask = mask_of(call, shape.dropout, DropoutSite::embedding);
  float* out = call.output.floats();
  if (mask.active()) dropout(mask, 0, out, call.batch * numbers, out);
}

void embed_patches_backward_weight(const EmbeddingShape& shape, const LayerCall& call,
                                   Workbench& on) {
  const ConvolutionSize size = patch_convolution(shape);
  const std::int64_t h = shape.hidden, numbers = call.seq_length * h;
  // Nobody reads the output's gradient after this pass, so it is masked where it lies.
  float* all = call.output_gradient.floats();
  const DropoutMask mask = mask_of(call, shape.dropout, DropoutSite::embedding);
  if (mask.active()) dropout(mask, 0, all, call.batch * numbers, all);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    // The first image of a step overwrites.
    const Beta beta = call.accumulate || b > 0 ? Beta::one : Beta::zero;
    const float* patches = call.saved[0].floats() + b * (call.seq_length - 1) * shape.patch;
    const float* dy = all + b * numbers;
    column_sum(dy, 1, h, beta, call.gradients[class_token].floats());
    column_sum(dy, 1, numbers, beta, call.gradients[position].floats());
    // The class token's row is no patch: the products begin behind it.
    column_sum(dy + h, call.seq_length - 1, h, beta, call.gradients[patch_bias].floats());
    on.convolutions.weight_gradient(size, patches, dy + h, beta,
                                    call.gradients[patch_weight].floats());
  }
}

}  // namespace weir::cpu

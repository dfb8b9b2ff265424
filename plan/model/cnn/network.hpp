// Convolutional networks as sequences of sized layers. A `Network` is built by appending layers,
// and knows the map (channels x height x width) that the next one reads; skips are edges to a layer
// appended before.
//
// What a layer keeps for its backward: a convolution, a norm, a linear layer and a max pooling
// their input; a rectifier its output, which is the next layer's kept input and counted there;
// linear things without parameters (adding, concatenating, averaging, resizing) nothing; dropout
// nothing either, its masks are drawn again. FLOPs are those of convolutions and matrix products,
// two a multiply-add.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/model/model.hpp"

namespace weir::cnn {

using Map = FeatureMap;

// What an operation adds to the layer it is part of.
struct Work {
  std::int64_t parameters = 0;
  double flops = 0;
  std::int64_t kept = 0;  // numbers
  Map output;
};

struct Convolution {
  std::int64_t channels = 0;  // of the output
  std::int64_t height = 1;    // of the kernel
  std::int64_t width = 1;
  std::int64_t stride_y = 1;
  std::int64_t stride_x = 1;
};

// Padded so that an output has ceil(input / stride) rows and columns; no bias. Keeps its input.
[[nodiscard]] Work convolve(const Map& input, const Convolution& convolution);
// Batch norm: a gain and a shift a channel. Keeps its input.
[[nodiscard]] Work normalise(const Map& input);
// One after the other.
[[nodiscard]] Work then(const Work& first, const Work& second);

class Network {
 public:
  explicit Network(Map input) : map_(input) {}

  void convolution(const std::string& name, const Convolution& convolution);
  void batch_norm(const std::string& name);
  void instance_norm(const std::string& name);  // without parameters
  void linear(const std::string& name, std::int64_t outputs);
  // Max pooling to ceil(input / 2).
  void max_pool(const std::string& name);
  // Means of whole channels.
  void average_pool(const std::string& name);
  // A layer that keeps nothing and learns nothing.
  void plain(const std::string& name, const std::string& kind) { plain(name, kind, map_); }
  void plain(const std::string& name, const std::string& kind, const Map& output);
  // A layer put together from operations; `keeps_input` is left to what they keep.
  void composite(const std::string& name, const std::string& kind, const Work& work);
  // The whole output of layer `from` also goes to the layer appended last.
  void skip_from(std::int32_t from) { model_.skips.push_back({from, last(), std::nullopt}); }

  [[nodiscard]] const Map& map() const { return map_; }
  [[nodiscard]] std::int32_t last() const {
    return static_cast<std::int32_t>(model_.layers.size()) - 1;
  }
  [[nodiscard]] Model take() { return std::move(model_); }

 private:
  void append(const std::string& name, const std::string& kind, const Work& work, bool keeps_input);

  Map map_;
  Model model_;
};

struct Image {
  std::int64_t channels = 3;
  std::int64_t side = 224;
};

// A residual network of bottlenecks (He et al., CVPR 2016): depth 50, 101 or 152; 11 layers a
// bottleneck and 7 beside.
[[nodiscard]] Model resnet(std::int64_t depth, const Image& image, std::int64_t classes);

// The same family as layers that can be executed: the stem, a block a layer, the mean over the map,
// and the classifier with its loss.
struct ResNetBlocks {
  std::vector<std::int64_t> blocks;  // by group; each group after the first halves the map
  bool bottleneck = false;           // of three convolutions, not two
  std::int64_t width = 64;           // channels of the first group
  bool small_images = false;         // a stem of 3 x 3 and no pooling, as for CIFAR
};
[[nodiscard]] Model resnet_blocks(const ResNetBlocks& sizes, const Image& image,
                                  std::int64_t classes);

struct UNet {
  std::int64_t depth = 5;
  std::int64_t convolutions = 5;  // B: of each cell
  std::int64_t channels = 64;     // C: of the first cell
  std::int64_t outputs = 1;       // channels of the segmentation
};
// The simplified U-Net of torchgpipe's benchmarks. Precondition: the image's side is a multiple of
// 2^depth.
[[nodiscard]] Model unet(const UNet& sizes, const Image& image);

// The same as layers that can be executed, a level each, with batch norms and rectifiers; the loss
// is the mean over all places, of `outputs` classes. Skips are relayed; where they go directly,
// plan/job/direct_skips has the layers.
[[nodiscard]] Model unet_blocks(const UNet& sizes, const Image& image);

// AmoebaNet-D(L, D) (Real et al., AAAI 2019) as GPipe trained it. Preconditions: L a multiple of 3,
// D of 8, the image's side of 32.
[[nodiscard]] Model amoebanet_d(std::int64_t cells, std::int64_t filters, const Image& image,
                                std::int64_t classes);

// The same as layers that can be executed, a cell each; the farther input is relayed.
[[nodiscard]] Model amoebanet_d_blocks(std::int64_t cells, std::int64_t filters, const Image& image,
                                       std::int64_t classes);

}  // namespace weir::cnn

// Tensors as rectangles: down the first dimension that is split, across the others.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/layout_drawing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costmodel/layers/network_math.hpp"
#include "plan/text/quote.hpp"
#include "plan/words/figures.hpp"
#include "plan/words/indexed.hpp"

namespace weir {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayer;
using layout::NetworkLayout;

constexpr double kLayerRow = 22, kBox = 30, kBoxHeight = 16, kBoxGap = 8, kLabels = 250,
                 kLeftEdge = 10;
constexpr double kSends = 420, kTitleRow = 30, kLetters = 7;
constexpr Paint kWeight = kBlue;
constexpr Paint kValue{{222, 150, 60}, {232, 168, 84}};

// A processor's place along a set of mesh dimensions, the last of which is the fastest.
std::int64_t part_of(const NetworkLayout& layout, std::int64_t processor, Axes axes) {
  std::int64_t stride = members(layout, ~Axes{0}), part = 0;
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    stride /= layout.mesh[m].size;
    if ((axes >> m & 1U) != 0)
      part = part * layout.mesh[m].size + processor / stride % layout.mesh[m].size;
  }
  return part;
}

// Where a processor's block is in the picture of the whole: shares of its height and its width.
struct Part {
  double y = 0, height = 1, x = 0, width = 1;
};
Part part_in(const NetworkLayout& layout, const layout::NetworkTensor& tensor,
             std::int64_t processor) {
  Part part;
  bool down = true;
  for (const int d : tensor.dimensions) {
    const Axes over = layout.over[at(d)];
    if (over == 0) continue;
    const auto parts = static_cast<double>(members(layout, over));
    const auto place = static_cast<double>(part_of(layout, processor, over));
    double &begin = down ? part.y : part.x, &length = down ? part.height : part.width;
    begin += place / parts * length;
    length /= parts;
    down = false;
  }
  return part;
}

std::string ranges_of(const Network& network, const NetworkLayout& layout,
                      const layout::NetworkTensor& tensor, std::int64_t processor) {
  std::vector<std::string> ranges;
  for (const int d : tensor.dimensions) {
    const Axes over = layout.over[at(d)];
    const std::int64_t size = network.dimensions[at(d)].size / members(layout, over);
    const std::int64_t begin = part_of(layout, processor, over) * size;
    ranges.push_back(
        fmt::format("{} {}..{}", network.dimensions[at(d)].name, begin, begin + size - 1));
  }
  return fmt::format("{}", fmt::join(ranges, " "));
}

std::int64_t drawn(const NetworkLayout& layout) {
  return std::min(members(layout, ~Axes{0}), kMostDrawnProcessors);
}

class Sheet {
 public:
  Sheet(const Network& network, Dtype dtype) : network_(network), dtype_(dtype) {}

  void add(const NetworkLayout& layout) {
    std::vector<std::string> sizes;
    for (const layout::MeshDimension& m : layout.mesh)
      sizes.push_back(fmt::format("{}={}", m.name, m.size));
    const std::int64_t all = members(layout, ~Axes{0});
    text(kLeftEdge, y_ + 14,
         fmt::format("{}: {} on {}{}", layout.name, rules_text(network_, layout),
                     sizes.empty() ? "one processor" : fmt::format("{}", fmt::join(sizes, ",")),
                     all > drawn(layout) ? fmt::format(", the first {}", drawn(layout)) : ""),
         kLetters + 3);
    y_ += kTitleRow;
    for (std::int64_t p = 0; p < drawn(layout); ++p)
      text(box_x(p) + kBox / 2, y_ - 3, std::to_string(p), kLetters, Anchor::middle);
    for (std::size_t l = 0; l < network_.layers.size(); ++l) add_layer(layout, l);
    y_ += kBoxGap;
    drawing_.width = std::max(drawing_.width, box_x(drawn(layout)) + kSends);
  }
  Drawing take() {
    drawing_.height = y_ + kBoxGap;
    return std::move(drawing_);
  }

 private:
  static double box_x(std::int64_t processor) {
    return kLeftEdge + kLabels + static_cast<double>(processor) * (kBox + kBoxGap);
  }
  void text(double x, double y, const std::string& words, double size,
            Anchor anchor = Anchor::start) {
    drawing_.shapes.emplace_back(Text{x, y, printable(words), size, anchor, kInk});
  }
  void add_layer(const NetworkLayout& layout, std::size_t l) {
    const NetworkLayer& layer = network_.layers[l];
    text(kLeftEdge, y_ + 9,
         layer.repeat > 1 ? fmt::format("{} x {}", layer.name, layer.repeat) : layer.name,
         kLetters + 1);
    y_ += kBoxHeight;
    const layout::LayerShare share = layer_share(network_, layout, l);
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      text(kLeftEdge + kBoxGap, y_ + 11, to_text(network_, layer.tensors[t]), kLetters);
      for (std::int64_t p = 0; p < drawn(layout); ++p) add_block(layout, layer.tensors[t], p);
      text(box_x(drawn(layout)) + kBoxGap, y_ + 11, sends(layout, share, static_cast<int>(t)),
           kLetters);
      y_ += kLayerRow;
    }
  }
  void add_block(const NetworkLayout& layout, const layout::NetworkTensor& tensor,
                 std::int64_t processor) {
    const double x = box_x(processor);
    const std::string tip = ranges_of(network_, layout, tensor, processor);
    drawing_.shapes.emplace_back(Box{x, y_, kBox, kBoxHeight, kGrid, tip});
    const Part part = part_in(layout, tensor, processor);
    drawing_.shapes.emplace_back(Box{x + part.x * kBox, y_ + part.y * kBoxHeight, part.width * kBox,
                                     part.height * kBoxHeight, is_weight(tensor) ? kWeight : kValue,
                                     tip});
  }
  // "F all-reduce over m 64.00 MiB; I of its gradient ..."
  [[nodiscard]] std::string sends(const NetworkLayout& layout, const layout::LayerShare& share,
                                  int tensor) const {
    std::vector<std::string> all;
    for (const layout::Exchange& e : share.exchanges) {
      if (e.tensor != tensor) continue;
      all.push_back(fmt::format("{}{} {} over {} {}{}", to_string(e.pass),
                                e.gradient ? " gradient" : "", to_string(e.collective),
                                axes_text(layout, e.axes), format_bytes(exchanged_bytes(e, dtype_)),
                                e.times > 1 ? fmt::format(" x {}", e.times) : ""));
    }
    return fmt::format("{}", fmt::join(all, "; "));
  }

  const Network& network_;
  Dtype dtype_;
  Drawing drawing_;
  double y_ = 6;
};

}  // namespace

Drawing draw_layouts(const Network& network, const std::vector<NetworkLayout>& layouts,
                     Dtype dtype) {
  Sheet sheet(network, dtype);
  for (const NetworkLayout& layout : layouts) sheet.add(layout);
  return sheet.take();
}

std::string layouts_csv(const Network& network, const std::vector<NetworkLayout>& layouts) {
  std::string csv = "layout,layer,tensor,processor,block,elements\n";
  for (const NetworkLayout& layout : layouts) {
    for (const NetworkLayer& layer : network.layers) {
      for (const layout::NetworkTensor& tensor : layer.tensors) {
        for (std::int64_t p = 0; p < members(layout, ~Axes{0}); ++p) {
          csv += fmt::format("{},{},{},{},{},{:.0f}\n", csv_quoted(layout.name),
                             csv_quoted(layer.name), tensor.name, p,
                             ranges_of(network, layout, tensor, p),
                             block_elements(network, layout, tensor.dimensions));
        }
      }
    }
  }
  return csv;
}

}  // namespace weir

// Rows, runs and bands of a convolution's windows.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/unfolding.hpp"

#include <algorithm>

#include "plan/model/cell_shape.hpp"
#include "plan/words/units.hpp"

namespace weir {
namespace {

// Rows of a run, but for the last: what follows them begins on 16 bytes.
constexpr std::int64_t kRowsTogether = 16;

// What a multiprocessor makes of a product at a time, and how many are to have work.
constexpr std::int64_t kTile = 128, kTiles = 128;

std::int32_t narrow(std::int64_t n) { return static_cast<std::int32_t>(n); }

// The first and the last line of outputs whose windows have line y of the input; of none the last
// is before the first: as kernels find them (exec/cuda/kernels/maps.hpp, outputs_that_see).
std::int64_t first_output(const CellOperation& o, std::int64_t y) {
  const std::int64_t begin = std::max<std::int64_t>(y + o.pad_y - o.kernel_y + 1, 0);
  return (begin + o.stride_y - 1) / o.stride_y;
}
std::int64_t last_output(const CellOperation& o, std::int64_t y) {
  const std::int64_t end = y + o.pad_y;
  return end < 0 ? -1 : std::min(end / o.stride_y, o.output.height - 1);
}

// Several images where they fit, else lines of one: a line's windows are made for each band that
// they reach into, so that no band adds to another's.
std::vector<LineBand> bands_of(const FeatureMap& input, const CellOperation& o, std::int64_t images,
                               std::int64_t fitting_lines) {
  const std::int64_t height = o.output.height;
  const std::int64_t fit = std::max<std::int64_t>(fitting_lines, 1);
  const std::int64_t together = std::min(std::max<std::int64_t>(fit / height, 1), images);
  // Of n lines see at most (n + kernel - 2) / stride + 1 outputs' lines.
  const std::int64_t lines =
      fit >= height
          ? input.height
          : std::clamp<std::int64_t>((fit - 1) * o.stride_y - o.kernel_y + 2, 1, input.height);
  std::vector<LineBand> bands;
  for (std::int64_t image = 0; image < images; image += together) {
    const std::int64_t here = std::min(together, images - image);
    for (std::int64_t first = 0; first < input.height; first += lines) {
      const std::int64_t count = std::min(lines, input.height - first);
      std::int64_t from = first_output(o, first), last = last_output(o, first + count - 1);
      // Of several images all outputs follow each other, those that nothing sees among them.
      if (here > 1) {
        from = 0;
        last = height - 1;
      }
      bands.push_back({narrow(image), narrow(here), narrow(first), narrow(count), narrow(from),
                       narrow(std::max<std::int64_t>(last - from + 1, 0))});
    }
  }
  return bands;
}

}  // namespace

std::vector<PlaceRun> Unfolding::runs(std::int64_t element) const {
  if (!unfolds) return {{0, places}};
  const std::int64_t fit = limits.bytes / (row() * element) / kRowsTogether * kRowsTogether;
  const std::int64_t at_once = std::max(fit, kRowsTogether);
  std::vector<PlaceRun> all;
  for (std::int64_t first = 0; first < places; first += at_once)
    all.push_back({first, std::min(at_once, places - first)});
  return all;
}

RowParts Unfolding::parts(const PlaceRun& run) const {
  const std::int64_t tiles = ceil_div(outputs, kTile) * ceil_div(group_row, kTile) * groups;
  const std::int64_t even = ceil_div(run.count, ceil_div(kTiles, tiles));
  const std::int64_t each =
      ceil_div(std::max(even, limits.part_rows), kRowsTogether) * kRowsTogether;
  // Groups are products beside each other already.
  if (groups > 1 || run.count < 2 * each) return {1, run.count, 0};
  return {run.count / each, each, run.count % each};
}

Unfolding unfolding(const FeatureMap& input, const CellOperation& o, std::int64_t images,
                    const UnfoldingLimits& limits) {
  const std::int64_t taps = o.kernel_y * o.kernel_x, seen = input.channels / o.groups;
  const std::int64_t padded = (taps * seen + 7) / 8 * 8;
  Unfolding u;
  u.unfolds = taps > 1 || o.stride_y > 1 || o.stride_x > 1 || o.pad_y != 0 || o.pad_x != 0;
  u.orders = u.unfolds && (taps > 1 || padded != seen);
  u.groups = o.groups;
  u.outputs = o.output.channels / o.groups;
  u.group_row = u.unfolds ? padded : seen;
  u.places = images * o.output.places();
  u.width = o.output.width;
  u.limits = limits;
  // Folded are sums in fp32.
  if (u.unfolds) u.bands = bands_of(input, o, images, limits.bytes / (u.width * u.row() * 4));
  return u;
}

}  // namespace weir

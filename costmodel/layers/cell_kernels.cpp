// What each operation launches, forwards and backwards.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/cell_kernels.hpp"

#include <algorithm>
#include <utility>

#include "costmodel/layers/layer_math.hpp"
#include "plan/model/unfolding.hpp"

namespace weir {
namespace {

using Kind = CellOperationKind;

constexpr std::int64_t kFloatBytes = 4;                      // bytes
constexpr std::int64_t kLeastOfPart = 64, kMostParts = 512;  // exec/cuda/kernels/map_norms.hpp
constexpr std::int64_t kRowsOfSums = 32;                     // exec/cuda/kernels/sums.hpp

class CellLister {
 public:
  CellLister(const CellShape& cell, std::int64_t batch, std::int64_t element)
      : cell_(cell), batch_(batch), e_(element) {}

  std::vector<CellKernel> list() {
    action_ = "F";
    if (cell_.reads_images) add("convert_kernel", numbers(cell_.input) * (kFloatBytes + e_));
    for (const CellOperation& o : cell_.operations) forward(o);
    action_ = "B";
    std::vector<bool> written(cell_.operations.size() + 1, false);
    for (std::size_t i = cell_.operations.size(); i-- > 0;) backward(cell_.operations[i], written);
    for (std::size_t i = cell_.operations.size(); i-- > 0;) weights(cell_.operations[i]);
    return std::move(all_);
  }

 private:
  void add(const char* name, std::int64_t bytes, std::int64_t calls = 1, Flops flops = Flops(0)) {
    all_.push_back({action_, name, bytes, calls, flops});
  }
  [[nodiscard]] const FeatureMap& input(const CellOperation& o) const {
    return cell_.map(o.inputs.front());
  }
  [[nodiscard]] std::int64_t numbers(const FeatureMap& map) const { return batch_ * map.numbers(); }
  [[nodiscard]] std::int64_t bytes(const FeatureMap& map) const { return numbers(map) * e_; }
  [[nodiscard]] Unfolding windows(const CellOperation& o) const {
    return unfolding(input(o), o, batch_);
  }
  static std::int64_t kernel_numbers(const Unfolding& u) {
    return u.groups * u.outputs * u.group_row;
  }
  // Of one group: `m` x `n` from products of `k` numbers.
  static Flops flops(std::int64_t m, std::int64_t n, std::int64_t k) {
    return Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }
  // On the way to sums over all places of a channel.
  [[nodiscard]] std::int64_t partials(const FeatureMap& map) const {
    const std::int64_t rows = batch_ * map.places();
    const std::int64_t each = std::max(ceil_div(rows, kMostParts), kLeastOfPart);
    return ceil_div(rows, each) * map.channels * kFloatBytes;
  }

  void order(const Unfolding& u) {
    if (u.orders) add("order_weights_kernel", 2 * kernel_numbers(u) * e_);
  }
  void unfold(const Unfolding& u, const CellOperation& o, const PlaceRun& run) {
    if (!u.unfolds) return;
    // What neighbouring windows share is read once.
    const std::int64_t read = bytes(input(o)) * run.count / u.places;
    add("unfold_windows_kernel", read + run.count * u.row() * e_);
  }
  void convolve(const CellOperation& o) {
    const Unfolding u = windows(o);
    order(u);
    for (const PlaceRun& run : u.runs(e_)) {
      unfold(u, o, run);
      add("product: convolution",
          (run.count * (u.outputs + u.group_row) + u.outputs * u.group_row) * e_, u.groups,
          flops(run.count, u.outputs, u.group_row));
    }
  }
  void convolve_back(const CellOperation& o) {
    const Unfolding u = windows(o);
    const auto product = [&](std::int64_t rows, std::int64_t of_result) {
      add("product: convolution input",
          (rows + u.group_row) * u.outputs * e_ + rows * u.group_row * of_result, u.groups,
          flops(rows, u.group_row, u.outputs));
    };
    order(u);
    if (!u.unfolds) return product(u.places, e_);
    for (const LineBand& band : u.bands) {
      const std::int64_t rows = u.rows_of(band);
      if (rows > 0) product(rows, kFloatBytes);
      const FeatureMap& from = input(o);
      const std::int64_t places = std::int64_t{band.images} * band.count * from.width;
      add("fold_windows_kernel", rows * u.row() * kFloatBytes + places * from.channels * e_);
    }
  }
  void convolution_weights(const CellOperation& o) {
    const Unfolding u = windows(o);
    for (const PlaceRun& run : u.runs(e_)) {
      unfold(u, o, run);
      const RowParts parts = u.parts(run);
      const std::int64_t made = u.outputs * u.group_row * kFloatBytes;
      const auto product = [&](std::int64_t rows, std::int64_t sums) {
        add("product: convolution weight", rows * (u.outputs + u.group_row) * e_ + sums * made,
            u.groups, flops(u.outputs, u.group_row, rows));
      };
      product(parts.count * parts.rows, parts.count);
      if (parts.rest > 0) product(parts.rest, 1);
      if (parts.count > 1) add("sum_partials_kernel", (parts.sums() + 1) * made);
    }
    if (u.orders) add("add_ordered_kernel", 2 * kernel_numbers(u) * kFloatBytes);
    if (!o.bias) return;
    const std::int64_t sums = ceil_div(u.places, kRowsOfSums) * o.output.channels * kFloatBytes;
    add("column_partials_kernel", bytes(o.output) + sums);
    add("sum_partials_kernel", sums + o.output.channels * kFloatBytes);
  }

  void forward(const CellOperation& o) {
    const std::int64_t made = bytes(o.output), read = bytes(input(o));
    const std::int64_t count = numbers(o.output), channels = o.output.channels * kFloatBytes;
    const auto inputs = static_cast<std::int64_t>(o.inputs.size());
    switch (o.kind) {
      case Kind::convolution:
        return convolve(o);
      case Kind::batch_norm:
        add("channel_partials_kernel", read + partials(o.output), 2);
        add("sum_parts_kernel", partials(o.output) + channels, 2);
        return add("batch_norm_kernel", read + made + 4 * channels);
      case Kind::relu:
        return add("rectify_kernel", read + made + count / 8);
      case Kind::max_pool:
        return add("max_pool_kernel", read + made + count);
      case Kind::average_pool:
      case Kind::global_pool:
        return add("average_pool_kernel", read + made);
      case Kind::add:
        if (inputs > 1) add("add_kernel", 3 * made, inputs - 1);
        return;
      case Kind::concat:
      case Kind::pack:
        for (const int value : o.inputs) add("copy_columns_kernel", 2 * bytes(cell_.map(value)));
        return;
      case Kind::upsample:
        return add("upsample_kernel", read + made);
      case Kind::slice:
        return add("copy_columns_kernel", 2 * made);
    }
  }

  // The gradient of input number k.
  void input_gradient(const CellOperation& o, std::size_t k) {
    const std::int64_t from = bytes(o.output), to = bytes(input(o));
    const std::int64_t channels = o.output.channels * kFloatBytes;
    switch (o.kind) {
      case Kind::convolution:
        return convolve_back(o);
      case Kind::batch_norm:
        add("channel_partials_kernel", from + to + 2 * partials(o.output));
        add("sum_parts_kernel", 2 * partials(o.output) + 2 * channels);
        return add("batch_norm_gradient_kernel", from + 2 * to + 5 * channels);
      case Kind::relu:
        return add("rectify_gradient_kernel", from + to + numbers(o.output) / 8);
      case Kind::max_pool:
        return add("max_pool_gradient_kernel", from + to + numbers(o.output));
      case Kind::average_pool:
      case Kind::global_pool:
        return add("average_pool_gradient_kernel", from + to);
      case Kind::add:
        return;  // a copy, which is no kernel
      case Kind::concat:
      case Kind::pack:
        return add("copy_columns_kernel", 2 * bytes(cell_.map(o.inputs[k])));
      case Kind::upsample:
        return add("upsample_gradient_kernel", from + to);
      case Kind::slice:
        return add("copy_columns_kernel", 2 * from);
    }
  }

  void backward(const CellOperation& o, std::vector<bool>& written) {
    for (std::size_t k = 0; k < o.inputs.size(); ++k) {
      const int value = o.inputs[k];
      if (value == 0 && cell_.reads_images) continue;
      input_gradient(o, k);
      // A further reader's is made apart and added.
      if (written[static_cast<std::size_t>(value)]) add("add_kernel", 3 * bytes(cell_.map(value)));
      written[static_cast<std::size_t>(value)] = true;
    }
  }

  void weights(const CellOperation& o) {
    if (o.kind == Kind::convolution) return convolution_weights(o);
    if (o.kind != Kind::batch_norm) return;
    const std::int64_t channels = o.output.channels * kFloatBytes;
    add("accumulate_kernel", 4 * channels);
    add("add_moments_kernel", 6 * channels);
  }

  const CellShape& cell_;
  std::int64_t batch_, e_;
  const char* action_ = "F";
  std::vector<CellKernel> all_;
};

}  // namespace

std::vector<CellKernel> cell_kernels(const CellShape& cell, std::int64_t batch,
                                     std::int64_t element) {
  return CellLister(cell, batch, element).list();
}

}  // namespace weir

// Takes out what reads and packs the end of a row.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/cnn/stashes.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

namespace weir::cnn {
namespace {

using Kind = CellOperationKind;
constexpr int kGone = -1;

// Of a slice of the row, what is left of it where the row has `row` numbers.
std::int64_t left_of(const CellOperation& slice, std::int64_t row) {
  return std::max<std::int64_t>(std::min(slice.offset + slice.output.numbers(), row) - slice.offset,
                                0);
}

class Shortening {
 public:
  Shortening(CellShape cell, std::int64_t numbers)
      : cell_(std::move(cell)), row_(cell_.input.numbers() - numbers) {
    made_ = {.input = {row_, 1, 1},
             .operations = {},
             .reads_images = cell_.reads_images,
             .inference = cell_.inference};
  }

  CellShape run() {
    for (CellOperation& operation : cell_.operations) {
      const bool of_row = operation.kind == Kind::slice && operation.inputs.front() == 0;
      now_.push_back(of_row                         ? slice_of_row(std::move(operation))
                     : operation.kind == Kind::pack ? pack(std::move(operation))
                                                    : append(std::move(operation)));
    }
    assert(now_.back() == made_.output() && "the last value is the cell's output");
    return std::move(made_);
  }

 private:
  // The number that the value has now.
  int slice_of_row(CellOperation slice) {
    const std::int64_t left = left_of(slice, row_);
    if (left == 0) return kGone;
    if (left == row_) {  // the map alone is left: no row
      made_.input = slice.output;
      return 0;
    }
    // A part of several maps is no map any more.
    if (left < slice.output.numbers()) slice.output = {left, 1, 1};
    return append(std::move(slice));
  }

  int pack(CellOperation pack) {
    std::erase_if(pack.inputs, [&](int value) { return now(value) == kGone; });
    // A single value needs no row.
    if (pack.inputs.size() == 1) return now(pack.inputs.front());
    std::int64_t numbers = 0;
    for (const int value : pack.inputs) numbers += made_.map(now(value)).numbers();
    pack.output = {numbers, 1, 1};
    return append(std::move(pack));
  }

  int append(CellOperation operation) {
    for (int& value : operation.inputs) value = now(value);
    made_.operations.push_back(std::move(operation));
    return made_.output();
  }

  [[nodiscard]] int now(int value) const { return now_[static_cast<std::size_t>(value)]; }

  CellShape cell_;
  std::int64_t row_;  // numbers of it that are left
  CellShape made_;
  std::vector<int> now_{0};  // by value, its number in what is made
};

}  // namespace

CellShape without_tail(CellShape cell, std::int64_t numbers) {
  return numbers == 0 ? std::move(cell) : Shortening(std::move(cell), numbers).run();
}

}  // namespace weir::cnn

// Pieces of slices as exchanges, and a kernel behind each.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/slice_sums.hpp"

#include <algorithm>

namespace weir {
namespace {

// Numbers of a piece: 4 MB from each other member, which links carry at their full rate.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::int64_t kNumberBytes = sizeof(float);

}  // namespace

SliceSums::SliceSums(const Setup& setup, Arena& arena, std::int64_t longest)
    : setup_(setup), stride_(std::min(kPiece, longest)) {
  room_ = arena.allocate(room_of(setup_.members) * kNumberBytes);
}

// The member's own part is in its place in the array.
std::int64_t SliceSums::room_of(int member) const {
  return (member - (member > setup_.own ? 1 : 0)) * stride_;
}

Tensor SliceSums::part(const Chunk& chunk, int member) const {
  const Slice all = replica_slice(chunk.of->elements, member, setup_.members);
  const std::int64_t count = std::clamp(all.count - chunk.offset, std::int64_t{0}, chunk.count);
  if (count == 0) return {};
  return slice_of(chunk.of->whole, {all.first + chunk.offset, count});
}

// By the slices of the first member, which no other's exceed: so all cut alike.
std::vector<SliceSums::Piece> SliceSums::pieces_of(const std::vector<Divided>& arrays) const {
  std::vector<Piece> pieces;
  std::int64_t taken = stride_;  // of the last piece's room
  for (const Divided& array : arrays) {
    const std::int64_t numbers = longest_slice(array.elements, setup_.members);
    for (std::int64_t offset = 0; offset < numbers;) {
      if (taken == stride_) {
        pieces.emplace_back();
        taken = 0;
      }
      const std::int64_t count = std::min(numbers - offset, stride_ - taken);
      pieces.back().push_back({&array, offset, count, taken});
      offset += count;
      taken += count;
    }
  }
  return pieces;
}

void SliceSums::launch_sums(const std::vector<Divided>& arrays) {
  for (const Piece& piece : pieces_of(arrays)) launch_piece(piece);
}

void SliceSums::launch_piece(const Piece& piece) {
  std::vector<StreamTransfer> sends, receives;
  std::vector<OrderedSums::One> sums;
  for (const Chunk& chunk : piece) {
    const Tensor own = part(chunk, setup_.own);
    for (int member = 0; member < setup_.members; ++member) {
      if (member == setup_.own) continue;
      if (const Tensor theirs = part(chunk, member)) sends.push_back({member, theirs});
      const std::int64_t place = (room_of(member) + chunk.place) * kNumberBytes;
      if (own) receives.push_back({member, {room_.data + place, own.bytes}});
    }
    if (own) sums.push_back({own.floats(), room_.floats() + chunk.place, own.bytes / kNumberBytes});
  }
  setup_.transport.exchange(setup_.among, sends, receives);
  if (sums.empty()) return;
  setup_.backend->launch_sums({sums, setup_.members, setup_.own, stride_},
                              setup_.transport.gradient_stream());
}

void SliceSums::gather(const std::vector<Divided>& arrays) {
  std::vector<StreamTransfer> sends, receives;
  for (const Divided& array : arrays) {
    const auto of = [&](int member) {
      return slice_of(array.whole, replica_slice(array.elements, member, setup_.members),
                      array.element_bytes);
    };
    for (int member = 0; member < setup_.members; ++member) {
      if (member == setup_.own) continue;
      if (of(setup_.own).bytes > 0) sends.push_back({member, of(setup_.own)});
      if (of(member).bytes > 0) receives.push_back({member, of(member)});
    }
  }
  if (!sends.empty() || !receives.empty()) setup_.transport.exchange(setup_.among, sends, receives);
}

}  // namespace weir

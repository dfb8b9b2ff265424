// Sums of arrays in fp32 of which each of several devices has a term: each owns a slice of each
// array, takes all others' parts of it a piece at a time, adds them in the devices' order, as the
// host would, and sends the sums round. All of it is put on the transport's stream of gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/streams/stream_transport.hpp"
#include "exec/training/replica_share.hpp"

namespace weir {

class SliceSums {
 public:
  struct Setup {
    StreamTransport& transport;
    Backend* backend = nullptr;
    Among among = Among::replicas;
    int members = 1;
    int own = 0;
  };
  // `longest`: of the arrays of one call, the numbers of a member's slices together. Takes room for
  // a piece of each other member's from the arena, for the whole run.
  SliceSums(const Setup& setup, Arena& arena, std::int64_t longest);

  // Of each array every member has a slice.
  struct Divided {
    Tensor whole;
    std::int64_t elements = 0, element_bytes = 4;
  };
  // This member's slice of each becomes the sum of all members' there.
  void launch_sums(const std::vector<Divided>& arrays);
  // Every member's slice to all others.
  void gather(const std::vector<Divided>& arrays);

  [[nodiscard]] static std::int64_t longest_slice(std::int64_t elements, int members) {
    return replica_slice(elements, 0, members).count;
  }

 private:
  // Numbers of a member's slice of an array, from `offset` on; where the slice is shorter, as many
  // as it has. `place`: in the room, among those of one other member.
  struct Chunk {
    const Divided* of = nullptr;
    std::int64_t offset = 0, count = 0, place = 0;
  };
  using Piece = std::vector<Chunk>;  // of one exchange

  [[nodiscard]] std::vector<Piece> pieces_of(const std::vector<Divided>& arrays) const;
  void launch_piece(const Piece& piece);
  [[nodiscard]] Tensor part(const Chunk& chunk, int member) const;  // empty: nothing of it
  [[nodiscard]] std::int64_t room_of(int member) const;  // numbers before another member's

  Setup setup_;
  Tensor room_;
  std::int64_t stride_ = 0;  // numbers of one member in the room
};

}  // namespace weir

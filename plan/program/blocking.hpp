// Transfers that block, as a step after lowering: what a schedule does on transports without
// buffers of their own.
//
//   rank 0   ... 0F1 | send 0F1's output, receive the gradient for 0B0 | 0B0 ...
//   rank 1   ... 1B0 | send 1B0's gradient, receive the input of 1F1   | 1F1 ...
//
// Between two compute actions a rank has at most one send (of what it just made) and one receive
// (of what it needs next). Rendezvous posts them one after the other and waits for each (MPI_Ssend,
// MPI_Recv): in the picture both ranks send first and wait for ever. Batched posts both as one NCCL
// group and waits for the group, which cannot cross. Either way a transfer begins once both ends
// have posted it, and compute waits for its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/program/program.hpp"

namespace weir {

enum class TransferMode : std::uint8_t {
  buffered,    // the sender goes on at once; receive slots are all that limits it
  rendezvous,  // each send and receive waits for its partner, one after the other
  batched,     // the send and the receive between two compute actions wait together (NCCL group)
};
[[nodiscard]] std::string_view to_string(TransferMode mode);
[[nodiscard]] std::optional<TransferMode> parse_transfer_mode(std::string_view text);

// The same operations with what blocking adds to their dependencies. `buffered` must have been
// lowered with unlimited slots: a blocked transfer needs none. With TransferMode::buffered it comes
// back unchanged.
[[nodiscard]] Program block_transfers(const Program& buffered, TransferMode mode);

}  // namespace weir

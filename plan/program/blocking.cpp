// The gaps between a rank's compute actions, one after the other: what is posted in each, and what
// then waits for it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/blocking.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<TransferMode, 3> kModes{{
    {TransferMode::buffered, "buffered"},
    {TransferMode::rendezvous, "rendezvous"},
    {TransferMode::batched, "batched"},
}};

class Blocking {
 public:
  Blocking(const Program& program, TransferMode mode)
      : program_(program), mode_(mode), added_(program.size()) {}

  Program build() {
    for (const Rank rank : program_.ranks()) block(program_.compute_lane(rank));
    return with_added();
  }

 private:
  // One end of a transfer: `end` (its SEND or RECV) is over when this rank may go on; `send` begins
  // it.
  struct Posted {
    OperationId send, end;
  };

  // From gap to gap between compute actions: `before` made what is sent, `id` takes what is
  // received.
  void block(const Lane& lane) {
    OperationId before = kNoOperation;
    for (const OperationId id : lane.operations()) {
      block_gap(before, id);
      before = id;
    }
    if (before != kNoOperation) block_gap(before, kNoOperation);
  }

  void block_gap(OperationId before, OperationId id) {
    std::vector<Posted> gap;
    if (before != kNoOperation) {
      const OperationId send = program_.send_after(before);
      if (send != kNoOperation) gap.push_back({send, send});
    }
    if (id != kNoOperation) {
      const OperationId receive = program_.receive_before(id);
      if (receive != kNoOperation) gap.push_back({program_.peer(receive), receive});
    }
    // Rendezvous posts one after the other, so the second waits for the first's end; a batch
    // posts both behind the last compute action.
    OperationId posted_after = before;
    for (const Posted& transfer : gap) {
      if (posted_after != kNoOperation) added_[transfer.send].push_back(posted_after);
      if (mode_ == TransferMode::rendezvous) posted_after = transfer.end;
      if (id != kNoOperation) added_[id].push_back(transfer.end);
    }
  }

  [[nodiscard]] Program with_added() const {
    Program::Parts parts = program_.parts();
    parts.dependencies = {};
    for (const OperationId id : program_.ids()) {
      parts.dependencies.next();
      const auto known = program_.predecessors(id);
      for (const Dependency& d : known) parts.dependencies.add(d.before, d.kind);
      for (const OperationId before : added_[id]) {
        // What is awaited for another reason already keeps that.
        const bool has =
            std::ranges::any_of(known, [&](const Dependency& d) { return d.before == before; });
        if (!has) parts.dependencies.add(before, DependencyKind::transfer);
      }
    }
    return Program(std::move(parts));
  }

  const Program& program_;
  const TransferMode mode_;
  PerOperation<std::vector<OperationId>> added_;
};

}  // namespace

std::string_view to_string(TransferMode mode) { return name_of(kModes, mode); }

std::optional<TransferMode> parse_transfer_mode(std::string_view text) {
  return named(kModes, text);
}

Program block_transfers(const Program& buffered, TransferMode mode) {
  if (mode == TransferMode::buffered) return buffered;
  assert(buffered.slots() == 0 && "a blocked transfer needs no receive slots");
  return Blocking(buffered, mode).build();
}

}  // namespace weir

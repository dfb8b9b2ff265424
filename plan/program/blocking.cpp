// Messages as transfers that block: what each rank posts between two actions, and waits for.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/blocking.hpp"

#include <array>
#include <cassert>
#include <utility>
#include <vector>

namespace weir {
namespace {

constexpr OperationId kNone = -1;
constexpr std::array<std::string_view, 3> kModes{"buffered", "rendezvous", "batched"};

std::size_t at(OperationId id) { return static_cast<std::size_t>(id); }

class Blocking {
 public:
  Blocking(const Program& program, TransferMode mode)
      : program_(program),
        mode_(mode),
        added_(program.operations.size()),
        send_of_(program.operations.size(), kNone) {}

  Program build() {
    for (const Lane& lane : program_.lanes) {
      if (lane.kind != LaneKind::send) continue;
      for (OperationId id = lane.first; id < lane.last; ++id)
        send_of_[at(program_.predecessors(id).front().before)] = id;
    }
    for (const Lane& lane : program_.lanes) {
      if (lane.kind == LaneKind::compute) block(lane);
    }
    return with_added();
  }

 private:
  // One end of a transfer: `end` (its SEND or RECV) is over when this rank may go on; `send` begins
  // it.
  struct Posted {
    OperationId send, end;
  };

  void block(const Lane& lane) {
    for (OperationId id = lane.first; id <= lane.last; ++id) {
      const OperationId before = id == lane.first ? kNone : id - 1;
      std::vector<Posted> gap;
      if (before != kNone && send_of_[at(before)] != kNone)
        gap.push_back({send_of_[at(before)], send_of_[at(before)]});
      if (id < lane.last) {
        for (const Dependency& d : program_.predecessors(id)) {
          if (program_.lane_of(d.before).kind == LaneKind::receive)
            gap.push_back({program_.predecessors(d.before).front().before, d.before});
        }
      }
      // Rendezvous posts one after the other, so the second waits for the first's end; a batch
      // posts both behind the last compute action.
      OperationId posted_after = before;
      for (const Posted& transfer : gap) {
        if (posted_after != kNone) added_[at(transfer.send)].push_back(posted_after);
        if (mode_ == TransferMode::rendezvous) posted_after = transfer.end;
        if (id < lane.last) added_[at(id)].push_back(transfer.end);
      }
    }
  }

  [[nodiscard]] Program with_added() const {
    Program blocked = program_;
    blocked.dependency_first.clear();
    blocked.dependencies.clear();
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      blocked.dependency_first.push_back(static_cast<std::int32_t>(blocked.dependencies.size()));
      const auto known = program_.predecessors(static_cast<OperationId>(i));
      blocked.dependencies.insert(blocked.dependencies.end(), known.begin(), known.end());
      for (const OperationId before : added_[i]) {
        bool has = false;
        for (const Dependency& d : known) has |= d.before == before;
        if (!has) blocked.dependencies.push_back({before, DependencyKind::transfer});
      }
    }
    blocked.dependency_first.push_back(static_cast<std::int32_t>(blocked.dependencies.size()));
    return blocked;
  }

  const Program& program_;
  const TransferMode mode_;
  std::vector<std::vector<OperationId>> added_;
  std::vector<OperationId> send_of_;  // per compute operation: the send of what it makes
};

}  // namespace

std::string_view to_string(TransferMode mode) { return kModes[static_cast<std::size_t>(mode)]; }

std::optional<TransferMode> parse_transfer_mode(std::string_view text) {
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    if (text == kModes[i]) return static_cast<TransferMode>(i);
  }
  return std::nullopt;
}

Program block_transfers(const Program& buffered, TransferMode mode) {
  if (mode == TransferMode::buffered) return buffered;
  assert(buffered.slots == 0 && "a blocked transfer needs no receive slots");
  return Blocking(buffered, mode).build();
}

}  // namespace weir

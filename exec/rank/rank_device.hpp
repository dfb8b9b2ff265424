// A rank's device with all that lives on it: backend, arena, and the stages it trains.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/rank/stage.hpp"
#include "plan/program/program.hpp"

namespace weir {

class RankDevice {
 public:
  explicit RankDevice(std::unique_ptr<Backend> backend)
      : backend_(std::move(backend)), arena_(std::make_unique<Arena>(*backend_)) {}

  // On the rank's own thread: prepares the kernels and puts the rank's stages, as `state` has
  // them, into `stages`.
  void prepare(const ResolvedPlan& loaded, Rank rank, const StateSource& state, Stages& stages,
               StagePeers peers = {});

  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] Arena& arena() { return *arena_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace weir

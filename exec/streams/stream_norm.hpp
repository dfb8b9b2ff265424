// The norm by which gradients are clipped where launches do not wait: squares and factor stay on
// the devices. Each stage's sums of squares go to their places in one array, which the ranks of one
// process share; between processes every one has its own, and they send each other what they have
// made. Each rank then finds the factor by itself, adding in the order in which the host would, and
// its updates multiply by it. The host reads the array when the step has ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/rank/gradient_exchange.hpp"
#include "exec/rank/stage.hpp"
#include "exec/streams/stream_transport.hpp"
#include "exec/training/gradient_norm.hpp"
#include "plan/program/program.hpp"

namespace weir {

class StreamNorm {
 public:
  struct RankOfNorm {
    Backend* backend = nullptr;  // null: another process's
    Arena* arena = nullptr;
  };
  struct Setup {
    const Program& program;
    const Stages& stages;  // of the ranks that are here
    GradientNorm norm;     // that clips
    GradientExchange& gradients;
    std::vector<RankOfNorm> ranks;  // by rank
    // Replicas that each make the squares of their slices of the gradients, times devices that each
    // make those of their parts of divided weights: those of one replica follow each other.
    int parts = 1;
    int part = 0;                  // this one's
    int places = 1;                // divides parts
    const Model* model = nullptr;  // undivided; where there are several places
  };
  // Takes its memory from the arenas, for the whole run.
  explicit StreamNorm(Setup setup);

  // The gradients of a stage are there for what is launched on this stream next.
  void launch_squares(Stage stage, Stream& on);
  // The same of all stages that are here; then what other processes have made, on the transport's
  // stream of gradients.
  void launch_all(StreamTransport& transport);
  // All squares are there for what the rank launches next: its updates are clipped.
  void launch_factor(Rank rank);

  // When the step has ended. Throws RunFailed where the norm is not finite.
  [[nodiscard]] double read();

 private:
  [[nodiscard]] bool here(Stage stage) const;
  // Of a weight that all devices have whole the first alone makes the squares.
  [[nodiscard]] bool makes(const Parameter& held) const;
  [[nodiscard]] double* place(int part, Stage stage) const;
  void add_squares(std::vector<StreamTransfer>& to, int member, int part, Rank rank) const;

  Setup setup_;
  Backend* reader_ = nullptr;            // of the first rank here, in whose arena the array is
  Tensor squares_;                       // [parts, weights], in double
  std::vector<Tensor> rooms_, factors_;  // by rank
};

}  // namespace weir

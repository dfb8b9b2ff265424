// A model's parameters, brought to the leader by the processes that have them or their parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/processes/process_grid.hpp"
#include "exec/processes/processes.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/training/each_weight.hpp"
#include "exec/training/gradient_copies.hpp"
#include "exec/training/gradient_peers.hpp"
#include "exec/training/replica_share.hpp"

namespace weir {

class ProcessParameters {
 public:
  // All of them outlive it. Messages have `tag`.
  ProcessParameters(const ResolvedPlan& loaded, const Training& training, Backend& backend,
                    Processes& processes, int tag);

  // Replica 0's parameters go to the leader one after the other; of what devices divide each one's
  // part, and under ZeRO-1 of what replicas divide each one's slice. Gradients are those of a step
  // that has ended: of a weight that several ranks have the first use's is the sum, the others' are
  // zeros.
  [[nodiscard]] FetchParameter fetch();

 private:
  struct Part {
    Stage stage;
    std::size_t parameter = 0;  // among the stage's
    ParameterPart part = ParameterPart::values;
    const ParameterTensor& description;  // on one device
  };

  void fetch_whole(const StageParameter& own, const Part& part, std::span<float> values);
  // What the device at a place has of it.
  void fetch_part(const Part& part, int place, std::span<float> values);
  void read_slice(const Part& part, const Slice& slice, std::span<float> into);

  const ResolvedPlan& loaded_;
  const Training& training_;
  Backend& backend_;
  Processes& processes_;
  ProcessGrid grid_;
  int tag_;
  std::vector<std::vector<StageParameter>> all_;
  std::set<GradientKey> summed_with_first_;
  std::vector<float> shard_;  // of a parameter on its way to the leader
};

}  // namespace weir

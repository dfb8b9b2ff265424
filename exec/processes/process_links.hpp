// How the rank of one process meets the others: those that divide its layers, those that have
// copies of them, and those before and behind it in the pipeline. By messages that are waited for,
// or launched on streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/processes/process_grid.hpp"
#include "exec/processes/process_rank.hpp"
#include "exec/processes/process_replica_group.hpp"
#include "exec/processes/process_tensor_group.hpp"
#include "exec/processes/process_tensor_links.hpp"
#include "exec/processes/processes.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/rank_device.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/streams/stream_replica_group.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

class RankLinks {
 public:
  // Of this process; `processes` are as many as the grid has.
  RankLinks(const ResolvedPlan& loaded, const ProcessGrid& grid, Processes& processes);

  // The processes that divide this one's layers; null where nobody does.
  [[nodiscard]] TensorGroup* tensor_group() const { return tensor_group_.get(); }
  // Where replicas divide gradients: they, by messages or, once connected, on streams.
  [[nodiscard]] ReplicaGroup* make_replica_group(const ProcessLinks& links, Backend& backend);

  // All of it outlives the rank.
  struct Setup {
    const std::vector<MessageRoute>& routes;
    RankDevice* device = nullptr;  // null for timed waits, as the next
    Training* training = nullptr;
    const Stages& no_stages;  // of timed waits
    Activity& activity;
    std::string backend;  // its name
    std::function<std::unique_ptr<ActionHandler>(GradientExchange&)> make_handler;
  };
  [[nodiscard]] std::unique_ptr<ProcessRank> connect(const ProcessLinks& links, const Setup& setup);
  // That exchanges on streams have of the arena for the whole run.
  [[nodiscard]] Bytes exchange_room() const { return exchange_room_; }

 private:
  [[nodiscard]] std::unique_ptr<ProcessRank> interpreted(const TransportFactory& open_transport,
                                                         const Setup& setup);
  [[nodiscard]] std::unique_ptr<ProcessRank> launched(const StreamTransportFactory& open_transport,
                                                      const Setup& setup);
  [[nodiscard]] std::vector<int> tensor_members() const;
  [[nodiscard]] std::vector<int> replica_members() const;

  const ResolvedPlan& loaded_;
  const ProcessGrid& grid_;
  Processes& processes_;
  Rank rank_;
  int pipeline_, replica_, tensor_;
  std::vector<std::int64_t> message_bytes_;  // none for timed waits
  std::unique_ptr<ProcessTensorGroup> tensor_group_;
  // Where replicas divide gradients, one of them.
  std::optional<ProcessReplicaGroup> replicas_;
  std::optional<StreamReplicaGroup> launched_replicas_;
  std::unique_ptr<ProcessTensorLinks> tensor_links_;  // where tensors are not in the host's memory
  Bytes exchange_room_{0};
};

}  // namespace weir

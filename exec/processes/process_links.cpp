// The links of a walked rank and of a launched one.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "exec/processes/interpreted_rank.hpp"
#include "exec/processes/stream_rank.hpp"
#include "exec/rank/message_sizes.hpp"
#include "exec/run/run_parts.hpp"
#include "exec/training/gradient_copies.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Of this rank's stages.
std::int64_t most_summed(const Training& training) {
  std::int64_t most = 0;
  for (const auto& stage : training.stages) most = std::max(most, stage ? stage->most_summed() : 0);
  return most;
}

}  // namespace

RankLinks::RankLinks(const ResolvedPlan& loaded, const ProcessGrid& grid, Processes& processes)
    : loaded_(loaded),
      grid_(grid),
      processes_(processes),
      rank_(grid.rank(processes.index())),
      pipeline_(processes.index() / grid.ranks),
      replica_(grid.replica(processes.index())),
      tensor_(grid.place(processes.index())) {
  if (grid.places > 1)
    tensor_group_ = std::make_unique<ProcessTensorGroup>(tensor_members(), processes);
}

// The processes that divide this one's layers, by place.
std::vector<int> RankLinks::tensor_members() const {
  std::vector<int> members;
  for (int place = 0; place < grid_.places; ++place)
    members.push_back(grid_.process(replica_, place, rank_));
  return members;
}

// The processes that have this one's part of its layers, by replica.
std::vector<int> RankLinks::replica_members() const {
  std::vector<int> members;
  for (int replica = 0; replica < grid_.replicas; ++replica)
    members.push_back(grid_.process(replica, tensor_, rank_));
  return members;
}

ReplicaGroup* RankLinks::make_replica_group(const ProcessLinks& links, Backend& backend) {
  if (loaded_.plan.zero < 2 || grid_.replicas == 1) return nullptr;
  if (std::holds_alternative<StreamTransportFactory>(links))
    return &launched_replicas_.emplace(grid_.replicas, replica_, backend);
  return &replicas_.emplace(replica_members(), processes_, backend);
}

std::unique_ptr<ProcessRank> RankLinks::connect(const ProcessLinks& links, const Setup& setup) {
  if (setup.training != nullptr) message_bytes_ = message_bytes(loaded_);
  if (const auto* open = std::get_if<StreamTransportFactory>(&links)) return launched(*open, setup);
  return interpreted(std::get<TransportFactory>(links), setup);
}

std::unique_ptr<ProcessRank> RankLinks::interpreted(const TransportFactory& open_transport,
                                                    const Setup& setup) {
  Backend* backend = setup.device != nullptr ? &setup.device->backend() : nullptr;
  Arena* arena = setup.device != nullptr ? &setup.device->arena() : nullptr;
  if (backend != nullptr && tensor_group_ != nullptr && !backend->in_host_memory()) {
    tensor_links_ = std::make_unique<ProcessTensorLinks>(tensor_members(), processes_, *backend);
    backend->connect(*tensor_links_);
  }
  const Program& program = loaded_.program;
  auto transport = open_transport(
      {program, message_bytes_, rank_, pipeline_ * program.shape().ranks, backend, arena, now_ns});
  const bool trains = setup.training != nullptr;
  return std::make_unique<InterpretedRank>(
      setup.routes, std::move(transport),
      ProcessGradients::Setup{program, trains ? setup.training->stages : setup.no_stages,
                              trains ? gradient_copies(loaded_) : GradientCopies{},
                              trains ? GradientNorm(loaded_) : GradientNorm(), rank_, replica_,
                              tensor_, tensor_group_.get(), loaded_.model, loaded_.plan, backend,
                              now_ns},
      processes_, setup.activity, setup.make_handler);
}

std::unique_ptr<ProcessRank> RankLinks::launched(const StreamTransportFactory& open_transport,
                                                 const Setup& setup) {
  if (setup.device == nullptr || setup.device->backend().stream() == nullptr) {
    throw UsageError(fmt::format(
        "transport nccl moves messages between GPUs; the {} backend has none", setup.backend));
  }
  Backend& backend = setup.device->backend();
  Arena& arena = setup.device->arena();
  const Program& program = loaded_.program;
  const Bytes before = arena.live();
  const GradientCopies copies = gradient_copies(loaded_);
  const GradientNorm norm(loaded_);
  // With optimizer state divided, squares are partial in each replica, and all of them exchange.
  const int norm_parts = loaded_.plan.zero > 0 ? loaded_.plan.dp : 1;
  auto transport = open_transport({program, rank_, replica_, loaded_.plan.dp, tensor_,
                                   loaded_.plan.tp, sharing_ranks(program, copies), &backend,
                                   &arena, norm.clips() ? norm_parts : 0});
  if (tensor_group_ != nullptr) backend.connect(*transport->tensor_links());
  if (launched_replicas_)
    launched_replicas_->connect(*transport, arena, most_summed(*setup.training));
  auto rank = std::make_unique<StreamRank>(
      setup.routes, std::move(transport),
      StreamGradients::Setup{program, setup.training->stages, copies, rank_, loaded_.plan,
                             loaded_.model, replica_, tensor_, &backend, &arena},
      norm, message_bytes_, setup.make_handler,
      [this](const std::function<bool()>& reached) { processes_.wait_until(reached); }, now_ns);
  exchange_room_ = arena.live() - before;
  return rank;
}

}  // namespace weir

// Why a combination of a search cannot be, and what makes it possible where something does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>

#include "plan/job/cluster.hpp"
#include "plan/model/model.hpp"
#include "plan/schedule/schedule.hpp"
#include "sim/search/partitions/kept_together.hpp"
#include "sim/search/space/space.hpp"

namespace weir {

class Legality {
 public:
  // The references must outlive it.
  Legality(const SweepRequest& request, const Model& model, const Cluster& cluster)
      : request_(request),
        model_(model),
        kinds_(cluster.kinds()),
        together_(model, cluster.stack),
        empty_stages_(cluster.stack.empty_stages) {}

  // Why not, in one line; nullopt: it can be. Of degrees that split layers and the mini-batch ...
  [[nodiscard]] std::optional<std::string> split(const Plan& plan) const;
  [[nodiscard]] std::optional<std::string> replicas(const Plan& plan) const;
  // ... of a number of micro-batches ...
  [[nodiscard]] std::optional<std::string> microbatches(const Plan& plan) const;
  // ... of K and v ...
  [[nodiscard]] std::optional<std::string> stages(const Plan& plan) const;
  // ... of a schedule that divides the vocabulary, with all of the plan but M and boundaries; of
  // others nothing.
  [[nodiscard]] std::optional<std::string> shards(const Plan& plan) const;
  // Not the devices that the search may use: its bounds, no reason to tell.
  [[nodiscard]] bool wrong_devices(const Plan& plan) const;

  // What of it the search keeps from, as the software has it not.
  [[nodiscard]] std::optional<std::string> degrees_beyond(const Plan& plan) const;
  [[nodiscard]] std::optional<std::string> order_beyond(const Plan& plan) const;

  // The receive slots with which the plan's schedule cannot deadlock, at least the plan's own; or
  // why there is no such schedule. Found once for a schedule's shape.
  using SlotsOrReason = std::variant<int, std::string>;
  [[nodiscard]] const SlotsOrReason& slots(const Plan& plan);

 private:
  const SweepRequest& request_;
  const Model& model_;
  int kinds_;  // of the cluster's nodes
  KeptTogether together_;
  bool empty_stages_;
  std::map<std::tuple<std::string, int, int, int, int>, SlotsOrReason> slots_;
};

}  // namespace weir

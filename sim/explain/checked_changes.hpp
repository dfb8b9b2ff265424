// Other plans of one, each checked as a plan's file would be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/explain/change.hpp"

namespace weir {

// What makes them: one who offers things to change, one who takes things of another plan.
class CheckedChanges {
 public:
  CheckedChanges(const ResolvedPlan& base, const Costs& costs, const Cluster& cluster)
      : base_(base), costs_(costs), cluster_(cluster) {}

 protected:
  [[nodiscard]] const Plan& plan() const { return base_.plan; }
  [[nodiscard]] const ResolvedPlan& base() const { return base_; }
  [[nodiscard]] const Costs& costs() const { return costs_; }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] bool of_file() const { return plan().schedule.ends_with(".csv"); }
  // Layer times of the changed plan's stages alike.
  [[nodiscard]] std::vector<int> balanced(const Plan& of) const;

  // With why it cannot be, where it cannot; else its slots and boundaries are what it needs.
  void add(std::string choice, std::string to, Plan changed);
  void add_boundaries();
  // As it is: of a cluster, or of a plan that cannot be made.
  void add(Change change) { changes_.push_back(std::move(change)); }

  std::vector<Change> take() { return std::move(changes_); }

 private:
  std::optional<std::string> refusal(Plan& changed) const;
  std::optional<std::string> refusal_of_skips(Plan& changed) const;

  const ResolvedPlan& base_;
  const Costs& costs_;
  const Cluster& cluster_;
  std::vector<Change> changes_;
};

}  // namespace weir

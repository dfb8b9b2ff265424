// Actions without names: segments of kernels between SendRecv kernels, matched to the plan's order.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plan/words/error.hpp"
#include "traces/kineto/rank_steps.hpp"

namespace weir {
namespace {

// Either the messages between two computations, or what is computed between two transfers.
struct PlanPart {
  bool transfer = false;
  std::vector<OperationId> operations;
};
struct TracePart {
  bool transfer = false;
  std::vector<const KinetoKernel*> kernels;
};

bool is_backward_work(ActionKind kind) { return kind != ActionKind::F; }

// The sends of an action and the receives of the next stand together.
std::vector<PlanPart> parts_of_plan(const RankProgram& rank) {
  const Program& program = *rank.program;
  std::vector<PlanPart> parts;
  const auto put = [&parts](bool transfer, OperationId id) {
    if (parts.empty() || parts.back().transfer != transfer) parts.push_back({transfer, {}});
    parts.back().operations.push_back(id);
  };
  for (const OperationId id : rank.actions) {
    const OperationId receive = program.receive_before(id), send = program.send_after(id);
    if (receive != kNoOperation) put(true, receive);
    put(false, id);
    if (send != kNoOperation) put(true, send);
  }
  return parts;
}

bool of_optimizer(const StepEvents& step, const KinetoKernel& kernel) {
  return std::ranges::any_of(step.optimizers, [&](const KinetoMark* mark) {
    return mark->start <= kernel.launched && kernel.launched <= mark->end;
  });
}

std::vector<TracePart> parts_of_trace(const StepEvents& step) {
  std::vector<TracePart> parts;
  for (const KinetoKernel& kernel : step.kernels) {
    // Sums and the update are found by their own marks, after the actions.
    if (kernel.kind == KernelKind::collective || of_optimizer(step, kernel)) continue;
    const bool transfer = kernel.kind == KernelKind::send_recv;
    if (parts.empty() || parts.back().transfer != transfer) parts.push_back({transfer, {}});
    parts.back().kernels.push_back(&kernel);
  }
  return parts;
}

class Matching {
 public:
  Matching(const RankProgram& rank, const StepEvents& step, StepPlaces& places)
      : rank_(rank),
        step_(step),
        places_(places),
        plan_(parts_of_plan(rank)),
        trace_(parts_of_trace(step)) {}

  void run() {
    for (const PlanPart& part : plan_) {
      if (!part.transfer) refuse_indistinct(part.operations);
    }
    trim();
    // Part by part: transfers and computations alternate in both, so the first difference is where
    // the orders part.
    const std::size_t common = std::min(plan_.size(), trace_.size());
    for (std::size_t i = 0; i < common; ++i) {
      const bool same =
          plan_[i].transfer == trace_[i].transfer &&
          (plan_[i].transfer ? match_transfer(plan_[i].operations, trace_[i].kernels)
                             : match_computation(plan_[i].operations, trace_[i].kernels));
      if (!same) disagree(i);
    }
    if (plan_.size() != trace_.size()) disagree(common);
  }

 private:
  // Kernels before the first receive (zeroed gradients, loaded data) and after the last send
  // (clipping, the optimizer) belong to no action.
  void trim() {
    if (!trace_.empty() && plan_.front().transfer && !trace_.front().transfer)
      trace_.erase(trace_.begin());
    if (!trace_.empty() && plan_.back().transfer && !trace_.back().transfer) trace_.pop_back();
  }

  void refuse_indistinct(const std::vector<OperationId>& actions) const {
    for (std::size_t j = 1; j < actions.size(); ++j) {
      const Action &before = rank_.action(actions[j - 1]), &after = rank_.action(actions[j]);
      if (is_backward_work(before.kind) != is_backward_work(after.kind)) continue;
      throw InputError(
          step_.file, step_.where,
          fmt::format(
              "no SendRecv kernel stands between {0} and {1} to tell them apart: record with "
              "actions named (PP:{1})",
              to_string(before), to_string(after)));
    }
  }

  // The kernel's direction where an open "nccl:send" or "nccl:recv" range tells it.
  [[nodiscard]] std::optional<bool> sends(const KinetoKernel& kernel) const {
    // The last range that was opened before the launch; it may be closed already.
    const auto after = std::upper_bound(
        step_.transfers.begin(), step_.transfers.end(), kernel.launched,
        [](Nanoseconds time, const KinetoMark* mark) { return time < mark->start; });
    if (after == step_.transfers.begin() || kernel.launched > (*(after - 1))->end)
      return std::nullopt;
    return (*(after - 1))->kind == MarkKind::send;
  }

  // One kernel may carry all messages (a batch); otherwise one each, the send first where no range
  // tells.
  bool match_transfer(const std::vector<OperationId>& messages,
                      const std::vector<const KinetoKernel*>& kernels) {
    if (kernels.size() == 1) {
      for (const OperationId id : messages) places_.at(rank_, id).add(*kernels.front());
      return true;
    }
    if (kernels.size() != messages.size()) return false;
    std::vector<OperationId> left = messages;
    for (const KinetoKernel* kernel : kernels) {
      const auto direction = sends(*kernel);
      const auto taken = std::ranges::find_if(left, [&](OperationId id) {
        return !direction || is_send(rank_.action(id).kind) == *direction;
      });
      if (taken == left.end()) return false;
      places_.at(rank_, *taken).add(*kernel);
      left.erase(taken);
    }
    return true;
  }

  // Runs of kernels by launching thread against the actions, forward and backward in turn. What the
  // main thread launches where no forward is expected (the loss's gradient, scaling, clipping)
  // belongs to no action, but ends the backward before it: backward() returns to the main thread
  // once, when all is launched.
  bool match_computation(const std::vector<OperationId>& actions,
                         const std::vector<const KinetoKernel*>& kernels) {
    std::size_t met = 0;  // actions
    bool ended = false;   // the last of them
    const auto launches = [&](std::size_t j, bool backward) {
      return j < actions.size() && is_backward_work(rank_.action(actions[j]).kind) == backward;
    };
    for (const KinetoKernel* kernel : kernels) {
      const bool backward = kernel->thread != step_.main_thread;
      if (launches(met, backward)) {
        ++met;
        ended = false;
      } else if (met == 0 || ended || !launches(met - 1, backward)) {
        if (backward) return false;
        ended = met > 0;
        continue;
      }
      places_.at(rank_, actions[met - 1]).add(*kernel);
      places_.last_launch = std::max(places_.last_launch, kernel->launched);
    }
    return met == actions.size();
  }

  [[noreturn]] void disagree(std::size_t part) const {
    Orders orders;
    orders.note =
        "SR: a SendRecv kernel; F: kernels of the thread that launches those; B: of another "
        "(autograd)";
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      if (i <= part) orders.trace_difference = orders.trace.size();
      std::string last;
      for (const KinetoKernel* kernel : trace_[i].kernels) {
        const std::string word = trace_[i].transfer                    ? "SR"
                                 : kernel->thread == step_.main_thread ? "F"
                                                                       : "B";
        if (word != last || trace_[i].transfer) orders.trace.push_back(word);
        last = word;
      }
    }
    if (part >= trace_.size()) orders.trace_difference = orders.trace.size();
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      if (i <= part) orders.plan_difference = orders.plan.size();
      for (const OperationId id : plan_[i].operations)
        orders.plan.push_back(to_string(rank_.action(id)));
    }
    if (part >= plan_.size()) orders.plan_difference = orders.plan.size();
    throw_orders(step_, orders);
  }

  const RankProgram& rank_;
  const StepEvents& step_;
  StepPlaces& places_;
  std::vector<PlanPart> plan_;
  std::vector<TracePart> trace_;
};

}  // namespace

void place_by_segments(const RankProgram& rank, const StepEvents& step, StepPlaces& places) {
  Matching(rank, step, places).run();
}

}  // namespace weir

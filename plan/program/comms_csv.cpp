// Writes a program as PyTorch's rows. Start at `Rows`: actions are taken in an order in which all
// they wait for came before, and a message is put into both its ranks' rows at once.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/comms_csv.hpp"

#include <fmt/format.h>

#include <cassert>
#include <map>
#include <set>
#include <vector>

namespace weir {
namespace {

bool has_word(ActionKind kind) { return kind <= ActionKind::W; }
bool ends_gradient(ActionKind kind) { return kind == ActionKind::B || kind == ActionKind::W; }

class Rows {
 public:
  explicit Rows(const Program& program)
      : program_(program), rows_(program.ranks().size()), next_(program.ranks().size()) {
    for (const Rank rank : program.ranks()) next_[rank] = program.compute_lane(rank).first;
    find_last_gradients();
  }

  std::string text() {
    for (const auto& [stage, id] : last_gradient_)
      add(program_.rank_of(id), {stage, ActionKind::UNSHARD, Microbatch{-1}});
    // A rank that can go on takes one action a round, as PyTorch's own lowering does.
    for (bool moved = true; moved;) {
      moved = false;
      for (const Rank rank : program_.ranks()) moved = take(rank) || moved;
    }
    for (const Rank rank : program_.ranks()) {
      assert(next_[rank] == program_.compute_lane(rank).last && "the program has a cycle");
      for (const Action& send : gradients_sent_[rank]) add_wait(rank, send);
    }
    std::string all;
    for (const std::string& row : rows_) all += row + "\n";
    return all;
  }

 private:
  void find_last_gradients() {
    gradients_sent_.resize(program_.ranks().size());
    for (const OperationId id : program_.ids()) {
      const Action& action = program_.op(id).action;
      if (ends_gradient(action.kind)) last_gradient_[action.stage] = id;
    }
  }

  void add_word(Rank rank, const std::string& word) {
    std::string& row = rows_[rank];
    row += (row.empty() ? "" : ",") + word;
  }
  void add(Rank rank, const Action& action) { add_word(rank, to_string(action)); }

  // "2SEND_F1" is awaited by "2WAIT_SEND_F1".
  void add_wait(Rank rank, const Action& awaited) {
    const std::string stage = std::to_string(awaited.stage.value);
    add_word(rank, stage + "WAIT_" + to_string(awaited).substr(stage.size()));
  }

  // The rank's next action, if its input is there; R and the optimizer have no word and are passed.
  bool take(Rank rank) {
    OperationId& id = next_[rank];
    const OperationId last = program_.compute_lane(rank).last;
    while (id != last && !has_word(program_.op(id).action.kind)) ++id;
    if (id == last) return false;
    const OperationId receive = program_.receive_before(id);
    if (receive != kNoOperation && !arrived_.contains(receive)) return false;
    add(rank, program_.op(id).action);
    pass_on(rank, id);
    finish(rank, id);
    ++id;
    return true;
  }

  // Both ends at once: any two ranks then post their messages in the same order, without which
  // transports that take a pair's messages one after the other (NCCL's) would stand still.
  void pass_on(Rank rank, OperationId id) {
    const OperationId send = program_.send_after(id);
    if (send == kNoOperation) return;
    const OperationId receive = program_.peer(send);
    add(rank, program_.op(send).action);
    add(program_.rank_of(receive), program_.op(receive).action);
    const Action& sent = program_.op(send).action;
    if (sent.kind == ActionKind::SEND_F)
      outputs_sent_.insert(sent);
    else
      gradients_sent_[rank].push_back(sent);
    arrived_.insert(receive);
  }

  // A stage's output was taken when its gradient came back, so that this wait does not stand still;
  // sent gradients are awaited at the row's end.
  void finish(Rank rank, OperationId id) {
    const Action& action = program_.op(id).action;
    const Action sent{action.stage, ActionKind::SEND_F, action.microbatch};
    if (is_backward(action.kind) && outputs_sent_.erase(sent) > 0) add_wait(rank, sent);
    if (last_gradient_[action.stage] != id) return;
    const Action sum{action.stage, ActionKind::REDUCE_GRAD, Microbatch{-1}};
    add(rank, sum);
    add_wait(rank, sum);
    add(rank, {action.stage, ActionKind::RESHARD, Microbatch{-1}});
  }

  const Program& program_;
  Indexed<Rank, std::string> rows_;
  Indexed<Rank, OperationId> next_;                    // of the compute lane
  std::set<Action> outputs_sent_;                      // and not awaited yet
  Indexed<Rank, std::vector<Action>> gradients_sent_;  // in their order
  std::map<Stage, OperationId> last_gradient_;
  std::set<OperationId> arrived_;  // receives whose send stands in its row
};

}  // namespace

std::string to_comms_csv(const Program& program) { return Rows(program).text(); }

}  // namespace weir

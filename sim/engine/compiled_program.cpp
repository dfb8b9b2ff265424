// Two passes over the program's operations, which come in rounds: find out which ends
// must be kept and until when, and emit instructions. Then look for repetition in the result.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/compiled_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <utility>

namespace weir {
namespace {

// Costs of one stage, in the order of pack(): F B I W R REDUCE OPTIMIZER, B and I of a micro-batch
// that is spared re-materialisation, then occupancy and latency of its messages.
enum CostSlot : std::uint32_t {
  cost_f,
  cost_b,
  cost_i,
  cost_w,
  cost_r,
  cost_reduce,
  cost_optimizer,
  spared_b,
  spared_i,
  send_f,
  late_f,
  send_b,
  late_b,
  kSlots
};

constexpr PerKind<CostSlot> kComputeSlots{
    .f = cost_f, .i = cost_i, .w = cost_w, .b = cost_b, .r = cost_r, .optimizer = cost_optimizer};

constexpr std::size_t kMostRegisters = std::numeric_limits<Register>::max();

std::uint16_t cost_index(const Program& program, const Action& action) {
  const auto slot = [&](std::int32_t stage, CostSlot which) {
    // Index 0 is a cost of nothing, for instructions that only wait.
    return static_cast<std::uint16_t>(1 + static_cast<std::uint32_t>(stage) * kSlots + which);
  };
  const std::int32_t stage = action.stage.value;
  // A backward that is spared rebuilds nothing, so it has a cost of its own.
  if (is_backward(action.kind) && program.spared(action))
    return slot(stage, action.kind == ActionKind::B ? spared_b : spared_i);
  switch (action.kind) {
    case ActionKind::REDUCE_GRAD:
      return slot(stage, cost_reduce);
    case ActionKind::SEND_F:
    case ActionKind::BROADCAST:
    case ActionKind::ALL_REDUCE_F:
      return slot(stage, send_f);
    case ActionKind::SEND_B:
    case ActionKind::ALL_REDUCE_B:
      return slot(stage, send_b);
    case ActionKind::RECV_F:  // the message is the neighbour's
      return slot(stage - 1, late_f);
    case ActionKind::RECV_B:
      return slot(stage + 1, late_b);
    default:
      return is_compute(action.kind) ? slot(stage, kComputeSlots[action.kind]) : 0;
  }
}

// Registers of one lane.
struct Ring {
  std::int32_t first = 0, size = 0;
};
constexpr std::int32_t kLongestRing = 64;

template <class T>
using First = std::priority_queue<T, std::vector<T>, std::greater<>>;

class Compiler {
 public:
  explicit Compiler(const Program& program) : program_(program) {}

  std::variant<CompiledProgram, NotCompiled> run() {
    compiled_.stages = program_.shape().total_stages();
    // A packed cost is of a stage and a kind.
    const auto skips = [](const Operation& operation) { return is_skip(operation.action); };
    if (std::ranges::any_of(program_.operations(), skips))
      return NotCompiled{"its skips go directly"};
    if (compiled_.costs() > kMostRegisters)
      return NotCompiled{fmt::format("{} stages are too many", compiled_.stages)};
    put_in_order();
    if (order_.size() < program_.size())
      return NotCompiled{"the program waits for itself: it deadlocks"};
    if (!receives_follow()) return NotCompiled{"its receives do not follow their sends"};
    find_lifetimes();
    if (!emit()) return NotCompiled{fmt::format("more than {} messages in flight", kMostRegisters)};
    return std::move(compiled_);
  }

 private:
  // --- order
  void put_in_order() {
    order_ = program_.order();
    position_.assign(program_.size(), -1);
    for (std::size_t p = 0; p < order_.size(); ++p)
      position_[order_[p]] = static_cast<std::int32_t>(p);
  }
  // Of blocking transfers a receive may have to wait for more than its send; and where there are
  // far more ranks than micro-batches operations do not come in rounds.
  [[nodiscard]] bool receives_follow() const {
    for (std::size_t p = 0; p < order_.size(); ++p) {
      if (program_.lane_of(order_[p]).kind != LaneKind::send) continue;
      if (p + 1 == order_.size() || order_[p + 1] != program_.peer(order_[p])) return false;
    }
    return true;
  }

  // --- lifetimes
  // Messages of one edge may overtake each other in flight only where their latencies differ.
  [[nodiscard]] bool mixed(const Lane& receive) const {
    std::uint16_t first = 0;
    for (const OperationId id : receive.operations()) {
      const std::uint16_t cost = cost_index(program_, program_.op(id).action);
      if (id == receive.first) first = cost;
      if (cost != first) return true;
    }
    return false;
  }
  void find_lifetimes() {
    last_use_.assign(program_.size(), -1);
    for (const OperationId id : order_) {
      for (const Dependency& d : program_.predecessors(id))
        last_use_[d.before] = std::max(last_use_[d.before], position_[id]);
    }
    in_order_.resize(program_.lanes().size());
    for (const LaneId l : program_.lanes().ids()) {
      const Lane& lane = program_.lane(l);
      if (lane.kind != LaneKind::receive || !mixed(lane)) continue;
      in_order_[l] = true;
      // An arrival is read once more, by the next one of its edge, which it holds back.
      for (const OperationId id : Ids(lane.first, lane.last - 1))
        last_use_[id] = std::max(last_use_[id], position_[id + 1]);
    }
  }
  // An end is read from its lane's register until the lane goes on; whoever needs it later needs a
  // copy.
  [[nodiscard]] bool needs_copy(OperationId id) const {
    const Lane& lane = program_.lane_of(id);
    return id + 1 < lane.last && last_use_[id] > position_[id + 1];
  }

  // --- registers and instructions
  // Whether `id` is read as late as its lane's operation `apart` places on, or later.
  [[nodiscard]] bool outlives(OperationId id, std::int32_t apart) const {
    const std::int32_t end = std::max(last_use_[id], position_[id]);
    return apart < program_.lane_of(id).last - id && position_[id + apart] <= end;
  }
  [[nodiscard]] bool is_kept(OperationId id) const {
    return program_.lane_of(id).kind == LaneKind::receive || needs_copy(id);
  }
  // What a lane keeps takes the registers of its ring in turn, so that rounds that wait alike are
  // written alike. Rings are powers of two: all have come round when the longest has. What outlives
  // the longest ring has a register of its own.
  bool open_rings() {
    rings_.resize(program_.lanes().size());
    for (const LaneId l : program_.lanes().ids()) {
      std::int32_t size = 0;
      for (const OperationId id : program_.lane(l).operations()) {
        if (!is_kept(id) || outlives(id, kLongestRing)) continue;
        size = std::max(size, 1);
        // Doubled until no end is still needed when its register comes round again.
        while (outlives(id, size)) size *= 2;
      }
      if (at(compiled_.registers) + at(size) > kMostRegisters) return false;
      rings_[l] = {compiled_.registers, size};
      compiled_.registers += size;
    }
    return true;
  }
  std::optional<Register> allocate() {
    if (!free_.empty()) {
      // The lowest free register, so that equal rounds get equal registers.
      const Register r = free_.top();
      free_.pop();
      return r;
    }
    if (at(compiled_.registers) > kMostRegisters) return std::nullopt;
    return static_cast<Register>(compiled_.registers++);
  }
  [[nodiscard]] Register register_of(OperationId id) const {
    return kept_[id] != 0 ? kept_[id] : lane_register_[program_.op(id).lane];
  }
  bool keep(OperationId id) {
    if (!outlives(id, kLongestRing)) {
      const LaneId lane = program_.op(id).lane;
      const std::int32_t turn = (id - program_.lane(lane).first) % rings_[lane].size;
      kept_[id] = static_cast<Register>(rings_[lane].first + turn);
      return true;
    }
    const auto r = allocate();
    if (!r) return false;
    kept_[id] = *r;
    expiring_.emplace(std::max(last_use_[id], position_[id]), *r);
    return true;
  }

  bool emit() {
    lane_register_.assign(program_.lanes().size(), 0);
    for (const LaneId l : program_.lanes().ids()) {
      // Messages are in flight beside each other: each has a register of the lane's ring.
      if (program_.lane(l).kind == LaneKind::receive) continue;
      const auto r = allocate();
      if (!r) return false;
      lane_register_[l] = *r;
      // Every message has a consumer, so no step ends with a send.
      if (program_.lane(l).kind != LaneKind::send) compiled_.lane_ends.push_back(*r);
    }
    if (!open_rings()) return false;
    kept_.assign(program_.size(), 0);
    compiled_.code.reserve(order_.size() + order_.size() / 2);
    for (std::size_t p = 0; p < order_.size();) {
      const std::size_t next = emit_at(p);
      if (next == p) return false;
      p = next;
      // What was read for the last time before the next position is free again.
      for (; !expiring_.empty() && at(expiring_.top().first) < p; expiring_.pop())
        free_.push(expiring_.top().second);
    }
    return true;
  }
  // Emits the operation at a position, and the message it sends where that follows at once. Returns
  // the next position; the same one where the registers do not suffice.
  std::size_t emit_at(std::size_t p) {
    const OperationId id = order_[p];
    // Its receive is the next in the order and part of the same instruction.
    if (program_.lane_of(id).kind == LaneKind::send)
      return emit_send(id, Instruction{Instruction::Kind::send}) ? p + 2 : p;
    Instruction last = emit_end(id);
    // One instruction for an end and its message, where that waits for no more than its producer
    // and its slot.
    const bool sends =
        p + 1 < order_.size() && program_.lane_of(order_[p + 1]).kind == LaneKind::send &&
        program_.producer(order_[p + 1]) == id && program_.predecessors(order_[p + 1]).size() <= 2;
    if (sends) {
      last.kind = Instruction::Kind::end_and_send;
      if (!emit_send(order_[p + 1], last)) return p;
    } else {
      compiled_.code.push_back(last);
    }
    if (needs_copy(id)) {
      if (!keep(id)) return p;
      copy(lane_register_[program_.op(id).lane], kept_[id]);
    }
    return p + (sends ? 3 : 1);
  }
  // Waits for all but the last two of what an operation waits for, and returns the instruction for
  // those.
  Instruction emit_end(OperationId id) {
    const Operation& operation = program_.op(id);
    Instruction instruction{.to = lane_register_[operation.lane]};
    const auto before = program_.predecessors(id);
    for (std::size_t d = 0; d < before.size(); ++d) {
      // An instruction has two waits: a full one is emitted as a wait without cost.
      if (d > 0 && d % 2 == 0) {
        compiled_.code.push_back(instruction);
        instruction.a = instruction.b = 0;
      }
      (d % 2 == 0 ? instruction.a : instruction.b) = register_of(before[d].before);
    }
    instruction.cost = cost_index(program_, operation.action);
    return instruction;
  }
  // `instruction`: of kind end_and_send with its first half filled in, or of kind send. Receives go
  // with their sends.
  bool emit_send(OperationId send, Instruction instruction) {
    const Operation& operation = program_.op(send);
    const OperationId receive = program_.peer(send), earlier = program_.previous(receive);
    instruction.edge = lane_register_[operation.lane];
    const auto before = program_.predecessors(send);
    // The first two are the producer and the slot, which the send itself waits for; here are the
    // others.
    for (std::size_t d = 2; d < before.size(); d += 2) {
      Instruction wait{.to = instruction.edge, .a = register_of(before[d].before)};
      if (d + 1 < before.size()) wait.b = register_of(before[d + 1].before);
      compiled_.code.push_back(wait);
    }
    if (instruction.kind == Instruction::Kind::send) instruction.to = register_of(before[0].before);
    if (before.size() > 1) instruction.slot = register_of(before[1].before);
    instruction.occupancy = cost_index(program_, operation.action);
    instruction.latency = cost_index(program_, program_.op(receive).action);
    if (!keep(receive)) return false;
    instruction.message = kept_[receive];
    compiled_.code.push_back(instruction);
    // Held back until the one before it is there, so that messages of an edge do not overtake.
    if (in_order_[program_.op(receive).lane] && earlier != kNoOperation)
      compiled_.code.push_back({.to = instruction.message, .a = kept_[earlier]});
    if (!needs_copy(send)) return true;
    if (!keep(send)) return false;
    copy(instruction.edge, kept_[send]);
    return true;
  }
  void copy(Register from, Register to) {
    compiled_.code.push_back({.kind = Instruction::Kind::copy, .to = from, .message = to});
  }

  const Program& program_;
  std::span<const OperationId> order_;
  PerOperation<std::int32_t> position_;  // in order_; -1: not placed
  PerOperation<std::int32_t> last_use_;  // position at which an end is read last
  Indexed<LaneId, bool> in_order_;  // receives whose arrivals must be held back to stay in order
  Indexed<LaneId, Register> lane_register_;
  PerOperation<Register> kept_;
  Indexed<LaneId, Ring> rings_;
  // By the position after which they are free, first in front; and those that are free.
  First<std::pair<std::int32_t, Register>> expiring_;
  First<Register> free_;
  CompiledProgram compiled_;
};

// The longest run around `anchor` in which every instruction equals the one `length` later.
Repeat repeat_around(const std::vector<Instruction>& code, std::size_t anchor, std::size_t low) {
  constexpr int kMostTries = 24;
  constexpr std::size_t kLeastRounds = 4;
  Repeat best;
  int tries = 0;
  // Longer rounds do not occur so often in what is left of the code.
  const std::size_t end = std::min(code.size(), anchor + (code.size() - low) / kLeastRounds + 1);
  for (std::size_t j = anchor + 1; j < end && tries < kMostTries; ++j) {
    if (code[j] != code[anchor]) continue;
    // The distance to an equal instruction is tried as the period; of these the one that covers
    // most of the code is taken.
    ++tries;
    const std::size_t length = j - anchor;
    // Several rounds of the best are a round too, of about the same code.
    if (best.count > 0 && length % best.length == 0) continue;
    std::size_t first = anchor, last = anchor;  // [first, last): equal to `length` later
    while (last + length < code.size() && code[last] == code[last + length]) ++last;
    while (first > low && code[first - 1] == code[first - 1 + length]) --first;
    // The last round has no later one that it equals, hence one more.
    const std::size_t count = (last - first) / length + 1;
    if (count >= kLeastRounds && count * length > best.count * best.length)
      best = {first, length, count, {}, {}};
  }
  return best;
}

// What a round reads before it writes it. Nothing, where it also reads what no round writes: then
// one round's shift would say nothing about the next one's.
bool find_carried(const std::vector<Instruction>& code, std::int32_t registers, Repeat& repeat) {
  std::vector<std::uint8_t> written(at(registers), 0), read_first(at(registers), 0);
  const auto reads = [&](Register r) {
    if (r != 0 && written[r] == 0) read_first[r] = 1;
  };
  using Kind = Instruction::Kind;
  for (std::size_t i = repeat.first; i < repeat.first + repeat.length; ++i) {
    const Instruction& in = code[i];
    // Every kind reads it: an end goes on from its lane's time, the others pass it on.
    reads(in.to);
    if (in.kind == Kind::end || in.kind == Kind::end_and_send) {
      reads(in.a);
      reads(in.b);
      written[in.to] = 1;
    }
    if (in.kind == Kind::send || in.kind == Kind::end_and_send) {
      reads(in.edge);
      reads(in.slot);
      written[in.edge] = 1;
    }
    if (in.kind != Kind::end) written[in.message] = 1;
  }
  for (std::size_t r = 1; r < written.size(); ++r) {
    if (read_first[r] != 0 && written[r] == 0) return false;
    if (read_first[r] != 0) repeat.carried.push_back(static_cast<Register>(r));
    if (written[r] != 0) repeat.written.push_back(static_cast<Register>(r));
  }
  return !repeat.carried.empty();
}

void mark_repeats(CompiledProgram& program) {
  constexpr std::size_t kAnchors = 16;
  std::size_t low = 0;
  for (std::size_t a = 1; a < kAnchors; ++a) {
    // Anchors all over the code: each phase of a schedule may have a steady part of its own.
    const std::size_t anchor = program.code.size() * a / kAnchors;
    if (anchor < low) continue;
    Repeat repeat = repeat_around(program.code, anchor, low);
    if (repeat.count == 0 || !find_carried(program.code, program.registers, repeat)) continue;
    low = repeat.first + repeat.length * repeat.count;
    program.repeats.push_back(std::move(repeat));
  }
}

}  // namespace

std::size_t CompiledProgram::costs() const { return 1 + at(stages) * kSlots; }

std::size_t CompiledProgram::bytes() const {
  std::size_t total =
      code.capacity() * sizeof(Instruction) + lane_ends.capacity() * sizeof(Register);
  for (const Repeat& repeat : repeats)
    total +=
        sizeof(Repeat) + (repeat.carried.capacity() + repeat.written.capacity()) * sizeof(Register);
  return total;
}

std::variant<CompiledProgram, NotCompiled> compile(const Program& program) {
  auto result = Compiler(program).run();
  if (auto* compiled = std::get_if<CompiledProgram>(&result)) {
    compiled->code.shrink_to_fit();
    mark_repeats(*compiled);
  }
  return result;
}

void pack(const CostTable& table, std::int64_t* packed, std::size_t stride) {
  const std::int64_t gap = std::max<std::int64_t>(table.host_overhead.count(), 0);
  std::int64_t* out = packed;
  *out = 0;
  const auto add = [&](std::int64_t value) { *(out += stride) = value; };
  for (std::size_t s = 0; s < table.stages.size(); ++s) {
    const StageCost& cost = table.stages[s];
    for (const ActionKind kind : kPassKinds) add(cost[kind].count() + gap);
    add(cost.reduce.count());
    add(cost.optimizer.count() + gap);
    // Spared micro-batches: the same passes without their rebuilding.
    for (const Nanoseconds time : {cost.b, cost.i}) add((time - cost.rebuild).count() + gap);
    for (const MessageCost& message : {table.forward_messages[s], table.backward_messages[s]}) {
      add(message.occupancy.count());
      add(message.latency.count());
    }
  }
}

}  // namespace weir

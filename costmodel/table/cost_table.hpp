// How long and how many bytes, for one plan: what the engines read, whoever filled it in (measured
// profile, fit, formula, or the user's --uniform).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/links/message_cost.hpp"
#include "plan/program/program.hpp"
#include "plan/words/per_kind.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Where a forecast's numbers come from: timed on the machine itself (measured, calibrated), built
// in, or built in and scaled by measured steps of the user's cluster (anchored).
enum class Basis : std::uint8_t { measured, calibrated, anchored, builtin, oversubscribed };
[[nodiscard]] std::string to_string(Basis basis);
[[nodiscard]] std::optional<Basis> parse_basis(std::string_view text);
// Built-in costs stand behind it, as they are or anchored; no layer was timed.
[[nodiscard]] bool stands_on_builtin(Basis basis);

// One stage and one micro-batch (segment); B is I + W unless measured apart.
// The optimizer and the reduction come once a step.
struct StageCost : PerKind<Nanoseconds> {
  Nanoseconds reduce{0};  // REDUCE_GRAD
  Nanoseconds unlike{0};  // of it, waiting for the replica with the longest sequences
  // Of i and of b, what rebuilds layers (recompute full); the last micro-batch does without where
  // it is spared.
  Nanoseconds rebuild{0};
};

// What the device computes (REDUCE_GRAD is the network's) times `factor`, rounded to ns: a
// straggler.
[[nodiscard]] StageCost slowed(StageCost cost, double factor);

// A skip that goes directly, and its gradient on its way back.
struct SkipCost {
  SkipRoute route;
  MessageCost forward, backward;
};

struct CostTable {
  Basis basis = Basis::builtin;
  std::vector<StageCost> stages;  // per global stage (replicas included)
  // Where the vocabulary is divided, the occupancies of the last stage's BROADCAST and of the last
  // shard's ALL_REDUCE_F and ALL_REDUCE_B, which go to no one stage, stand here too.
  std::vector<MessageCost> forward_messages;  // per global stage: its output to the next stage
  std::vector<MessageCost>
      backward_messages;         // per global stage: its input gradient to the stage before
  std::vector<SkipCost> skips;   // the program's
  Nanoseconds host_overhead{0};  // before every compute operation, not part of its duration
};

// Durations and arrival latencies, as the engines take them.
// SEND: duration = occupancy. RECV: duration = latency after the send's end. Others: busy time.
struct OperationCosts {
  PerOperation<std::int64_t> duration_ns;
  // Idle before the start once ready (host overhead, replayed gaps); may be empty.
  PerOperation<std::int64_t> gap_ns;
  // Of the duration, what rebuilds layers; empty: nothing does.
  PerOperation<std::int64_t> rebuild_ns;
};

[[nodiscard]] OperationCosts expand(const Program& program, const CostTable& costs);

}  // namespace weir

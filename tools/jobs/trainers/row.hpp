// What a trainer lacks, needs and takes where nothing is said: a row a constraint, each with where
// it was read. Their tables are in tables.hpp, and ask.hpp asks them for a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/plan.hpp"
#include "tools/jobs/job/export.hpp"

namespace weir {

enum class Trainer : std::uint8_t {
  megatron,    // NVIDIA/Megatron-LM
  fork,        // its zero-bubble fork, sail-sg/zero-bubble-pipeline-parallelism
  torchtitan,  // main, as of August 2026
  torchtitan_0_2,
  torch,  // torch.distributed.pipelining
  deepspeed
};
// What the rows look at.
struct TrainerFacts {
  const Plan& plan;
  bool tied_llama = false;  // Llama's blocks, and a head whose weight is the embedding's
  bool experts = false;
  bool latent_attention = false;
  bool router_pre_softmax = false;
  bool recent_model = false;       // with arguments that Megatron-LM had no earlier than 2025
  bool equal_stages = true;        // as many blocks on each
  bool norm_alone = false;         // on a stage of its own: the final norm
  bool predicting_parted = false;  // blocks that predict further tokens are on several stages
  ChunkPlacement placement = ChunkPlacement::looped;
  bool copies = false;     // of the weights, or slices of sequences
  double offloadable = 0;  // of what blocks keep, the share that Megatron's modules hold
};

enum class RowKind : std::uint8_t {
  lacks,        // the trainer has nothing of it: refused
  other_order,  // it starts, in another order of its own: refused unless that is allowed
  needs,        // an argument without which it does not start, or trains otherwise than the plan
  states,       // an argument whose default may move: written where the files are ours
  environment,  // a variable of the process
  untried       // it takes the arguments, and none of its own tests does: written, and said
};

struct TrainerRow {
  std::string_view name;  // unique in its table
  RowKind kind;
  std::string_view key;  // of the plan
  bool (*holds)(const TrainerFacts& facts);
  std::string_view says;    // behind the trainer's name
  std::string_view source;  // file and function of the version that was read
  std::string_view argument = {};
  std::string (*value)(const TrainerFacts& facts) = nullptr;  // none: a flag, or a variable unset
};

// What a job of Megatron's keeps only with others: where none of `needs` is given, or `also` does
// not hold, the argument goes.
struct ArgumentRule {
  std::string_view argument;
  std::vector<std::string_view> needs;  // one of them; empty: none
  bool (*also)(const TrainerFacts& facts);
  std::string_view why;
};

}  // namespace weir

// The job that a launch script starts, for tests that write such scripts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <variant>

#include "plan/job/summary.hpp"
#include "plan/model/layer_kinds.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {

// The plan's summary without its attention, and its blocks and their width: "K4 dp2 M8 b1 1f1b
// [3,5,7], 8 of 512".
inline std::string started(const std::string& script, const ShellEnvironment& environment = {}) {
  Job job = read_megatron_job(script, "job.sh", {.environment = environment});
  job.plan.attention = AttentionKind::unfused;  // which it is by default, defaults_test.cpp has
  const auto& block = std::get<TransformerShape>(job.model.layers[1].shape);
  return summary(job.plan) + fmt::format(", {} of {}", job.model.layers.size() - 3, block.hidden);
}

inline std::string said(const std::string& script) {
  std::string all;
  for (const Remark& remark : read_megatron_job(script, "job.sh", {}).remarks)
    all += remark.name + ": " + remark.text + "\n";
  return all;
}

// What every job below has where nothing else is written.
inline const std::string kSizes =
    " --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024"
    " --max-position-embeddings 1024 --vocab-size 32000 --bf16 ";

}  // namespace weir

// A small Megatron job, which tests of its reader add arguments to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/megatron/import.hpp"

namespace weir::small_job {

inline Job megatron(const std::string& text, const JobOptions& options = {.dp = 1}) {
  return read_megatron_job(text, "job.args", options);
}

// Eight blocks of width 64, one micro-batch of one sequence: what every example below adds to.
inline const std::string kSmall =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32\n"
    "--vocab-size 1000 --micro-batch-size 1 --global-batch-size 16\n";

}  // namespace weir::small_job

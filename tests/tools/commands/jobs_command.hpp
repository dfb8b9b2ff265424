// Another tool's job through the command: a folder with a small one of Megatron, job.args, that has
// an argument which no version of Megatron knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/tools/commands/command.hpp"

namespace weir {

class JobsCommand : public InFolder {
 protected:
  JobsCommand() {
    write("job.args",
          "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
          "--max-position-embeddings 16\n"
          "--vocab-size 256 --make-vocab-size-divisible-by 1 --micro-batch-size 2 "
          "--global-batch-size 16 "
          "--overlap-moe-expert-parallel-comm\n"
          "--pipeline-model-parallel-size 2 --lr 1e-4 --warp-drive 9\n");
  }
};

}  // namespace weir

// The command beside a tiny GPT-2 of three blocks, tiny.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/tools/commands/command.hpp"

namespace weir {

class Command : public InFolder {
 protected:
  Command() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                       R"("n_positions":8})");
  }
};

}  // namespace weir

// Whether a Megatron job's rows are one sequence each.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {

// --packing is ms-swift's (swift/arguments/base_args/base_args.py), --sft packs conversations into
// rows (training/datasets/sft_dataset.py @d98e8a64ddf3). --reset-attention-mask changes a mask that
// causal kernels do not read (gpt_layer_specs.py: AttnMaskType.causal), and so no time.
void set_rows(Arguments& a, Job& job) {
  for (const char* name :
       {"hybrid-context-parallel", "dynamic-context-parallel", "sequence-packing-scheduler"}) {
    if (a.flag(name)) {
      a.fail(name,
             "groups of context parallelism that change with the sequences' lengths are not "
             "modelled");
    }
  }
  // Documents of a stream of which each attends to itself alone (core/datasets/gpt_dataset.py).
  // With
  // --sft the rows are that one's (pretrain_gpt.py, train_valid_test_datasets_provider).
  const std::string apart = "dataloader-inter-document-masking";
  if (a.flag(apart)) job.rows = {apart, RowsOf::cut};
  for (const char* name : {"packing", "sft", "rl-use-sequence-packing"}) {
    const std::string value = a.values(name);
    if (!a.flag(name) || says_false(value)) continue;
    job.rows = {name, RowsOf::packed};
  }
  const std::string variable = "variable-seq-lengths";
  if (a.flag(variable)) job.rows = {variable, RowsOf::longest};
}

}  // namespace weir

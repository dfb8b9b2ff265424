// Whether a Megatron job's rows are one sequence each.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

// What Megatron asserts of it (training/arguments.py, validate_args @d98e8a64ddf3), and that
// sequences are told apart, which only rows of conversations are whole for.
void set_dynamic_groups(Arguments& a, Job& job) {
  const std::string name = "hybrid-context-parallel", most = "max-seqlen-per-dp-cp-rank";
  if (!a.flag(name)) {
    static_cast<void>(a.flag(most));  // nothing without it
    return;
  }
  if (job.rows.name != "sft") a.fail(name, "expected with --sft, whose rows are whole sequences");
  if (!a.flag("calculate-per-token-loss")) a.fail(name, "needs --calculate-per-token-loss");
  if (a.text_or("dataloader-type", "single") != "single")
    a.fail(name, "needs --dataloader-type single");
  if (a.flag("use-megatron-fsdp")) a.fail(name, "excludes --use-megatron-fsdp");
  if (job.plan.pp > 1) a.fail(name, "excludes a pipeline");
  job.rows = {name, RowsOf::packed, static_cast<int>(a.integer(most, 1, std::int64_t{1} << 30))};
}

}  // namespace

// --packing is ms-swift's (swift/arguments/base_args/base_args.py), --sft packs conversations into
// rows (training/datasets/sft_dataset.py @d98e8a64ddf3). --reset-attention-mask changes a mask that
// causal kernels do not read (gpt_layer_specs.py: AttnMaskType.causal), and so no time.
void set_rows(Arguments& a, Job& job) {
  for (const char* name : {"dynamic-context-parallel", "sequence-packing-scheduler"}) {
    if (a.flag(name)) {
      a.fail(name,
             "bins of sequences whose groups of context parallelism change are not modelled "
             "(sequences that each have a group are: --hybrid-context-parallel)");
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
  set_dynamic_groups(a, job);
}

}  // namespace weir

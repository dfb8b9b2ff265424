// Fields that several use cases share: how plans are described, and the words of enumerations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/job/summary.hpp"
#include "plan/program/blocking.hpp"
#include "tools/app/shared/field.hpp"

namespace weir {

// "4", "1,2,4", "1..8" and mixtures; ascending order is kept as written. Throws UsageError naming
// the option.
[[nodiscard]] std::vector<int> parse_numbers(const std::string& text, const std::string& option,
                                             int low = 1, int high = 1 << 20);
[[nodiscard]] std::vector<std::string> parse_words(const std::string& text);

// none, selective, full, full:4, stage, layers as 0-11,40, and GPipe's names: never is none, always
// is stage, except-last is stage with `microbatches`. Those are "", "all" or "except-last".
[[nodiscard]] Recompute parse_recompute(const std::string& mode, const std::string& microbatches);

// buffered, rendezvous or batched; throws UsageError.
[[nodiscard]] TransferMode parse_transfers(const std::string& text);

// What every plan of a use case has in common.
struct PlanOptions {
  std::filesystem::path model;
  std::optional<std::string> model_text;  // of that file, where it was read: a pipe has it once
  std::optional<std::int64_t> seq_length;
  std::string lengths;  // of sequences: a file, MEAN:MOST, or quantiles; empty: rows are one each
  std::string rows;     // as parse_rows_of has it; empty: packed
  std::string dtype = "fp32";
  std::string fp8_recipe;  // empty: delayed with --dtype fp8, else none
  bool fp8_param_gather = false;
  int lora_rank = 0;
  std::string lora_targets;  // empty: the four of a block
  double lora_dropout = 0;
  std::string frozen;  // layers
  int prediction_layers = 0;
  double prediction_weight = kPredictionWeight;
  std::string attention = "unfused";
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  int newton_schulz = 5;  // of muon
  double weight_decay = 0;
  double clip_grad = 0;  // 0: gradients are not clipped
  double min_lr = 0;
  std::optional<std::int64_t> lr_warmup_iters, lr_decay_iters;
  std::string lr_decay_style = "constant";
  std::optional<int> slots;  // none: 2, or as many as the schedule cannot do without
  std::string note;
};
[[nodiscard]] app::Fields fields(PlanOptions& options);

// The model these name, its blocks with the attention they ask for.
[[nodiscard]] Model load_model(const PlanOptions& options);

// Whether something is asked for that depends on the tokens of a sample: then a length must be
// given where the model has no usual one.
enum class SampleLength : std::uint8_t { needed, not_needed };
// A plan with these and one stage; model path as given, hash of its bytes; without a length
// seq_length is 0. Notes what of the model file was ignored.
[[nodiscard]] Plan base_plan(const PlanOptions& options, std::uint64_t seed, const Model& model,
                             const app::Session& session,
                             SampleLength length = SampleLength::needed);

// Of --lengths and --rows; throws UsageError, and InputError of a file.
[[nodiscard]] SequenceLengths lengths_of(const PlanOptions& options);
// Of --attention; throws UsageError.
[[nodiscard]] AttentionKind attention_of(const PlanOptions& options);
// Of --dtype, of which fp8 is bf16 with products in 8 bits; throws UsageError.
[[nodiscard]] Dtype dtype_of(const PlanOptions& options);
// The same of a plan: what it has beside bf16, else what these have.
void take_treatment(const Plan& plan, const app::Session& session, PlanOptions& options);

// A memory size, "80 GiB"; throws UsageError.
[[nodiscard]] Bytes parse_memory(const std::string& text, const std::string& option);
// "30s", "5min"; throws UsageError.
[[nodiscard]] Seconds parse_duration(const std::string& text, const std::string& option);

// "--seed", which the command has for all of its sub-commands together.
[[nodiscard]] app::Field seed_field(std::uint64_t& seed);

}  // namespace weir

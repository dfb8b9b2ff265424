// Options that several commands share: how plans are described on the command line, lists and
// ranges of numbers, and the words of enumerations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/program/blocking.hpp"

namespace CLI {
class App;
}

namespace weir {

// "4", "1,2,4", "1..8" and mixtures; ascending order is kept as written. Throws UsageError naming
// the option.
[[nodiscard]] std::vector<int> parse_numbers(const std::string& text, const std::string& option);
[[nodiscard]] std::vector<std::string> parse_words(const std::string& text);

// none, selective, full, and GPipe's names never, always, except-last. `microbatches` is "", "all"
// or "except-last".
[[nodiscard]] Recompute parse_recompute(const std::string& mode, const std::string& microbatches);
[[nodiscard]] std::string to_text(const Recompute& recompute);

// buffered, rendezvous or batched; throws UsageError.
[[nodiscard]] TransferMode parse_transfers(const std::string& text);

// What every plan of a command has in common.
struct PlanOptions {
  std::filesystem::path model;
  std::optional<std::int64_t> seq_length;
  std::string dtype = "fp32";
  std::string attention = "unfused";
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;
  std::optional<int> slots;  // none: 2, or as many as the schedule cannot do without
  std::string note;
};
void add_plan_options(CLI::App& command, PlanOptions& options);

// The model these name, its blocks with the attention they ask for.
[[nodiscard]] Model load_model(const PlanOptions& options);

// A plan with these and one stage; model path as given, hash of its bytes. Reports ignored keys on
// stderr.
[[nodiscard]] Plan base_plan(const PlanOptions& options, std::uint64_t seed, const Model& model);

// A memory size, "80 GiB"; throws UsageError.
[[nodiscard]] Bytes parse_memory(const std::string& text, const std::string& option);

// The costs file, or built-in costs of the cluster's device where none is named.
[[nodiscard]] Costs costs_or_builtin(const std::optional<std::filesystem::path>& file,
                                     const Model& model, const Plan& plan, const Cluster& cluster);

// "K2 M8 b1 1f1b full [4]": enough to tell plans of one model apart.
[[nodiscard]] std::string summary(const Plan& plan);

}  // namespace weir

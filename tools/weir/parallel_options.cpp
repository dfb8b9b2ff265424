// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/parallel_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "plan/words/error.hpp"
#include "sim/search/sweep.hpp"
#include "tools/weir/options.hpp"

namespace weir {
namespace {

constexpr const char* kTp = "Tensor-parallel devices a stage";
constexpr const char* kCp = "Context-parallel devices a stage: each has a part of every sequence";
constexpr const char* kDp = "Data-parallel replicas, D of G = b M D";
constexpr const char* kZero =
    "ZeRO stage over the dp x cp replicas: 0 to 3 (1: distributed optimizer)";

template <class Options>
void add_flags(CLI::App& command, Options& o) {
  command.add_option("--ep", o.ep, "Expert parallelism: not modelled, only 1")
      ->check(CLI::Range(1, 1 << 20));
  command.add_flag("--sequence-parallel", o.sequence_parallel,
                   "Divide what --tp leaves whole by tokens");
  command.add_flag("--overlap-grad-reduce", o.overlap_grad_reduce,
                   "Reduce gradients beside the last micro-batch's backward (default: after it)");
}

void refuse_experts(int ep) {
  if (ep > 1)
    throw MissingComponent(
        fmt::format("--ep {}: expert parallelism is not modelled yet; only 1", ep));
}

}  // namespace

void add_parallel_options(CLI::App& command, ParallelOptions& o) {
  const CLI::Range positive(1, 1 << 16);
  command.add_option("--tp", o.tp, kTp)->check(positive);
  command.add_option("--cp", o.cp, kCp)->check(positive);
  command.add_option("--dp", o.dp, kDp)->check(positive);
  command.add_option("--zero", o.zero, kZero)->check(CLI::Range(0, 3));
  add_flags(command, o);
}

void apply(const ParallelOptions& o, Plan& plan) {
  refuse_experts(o.ep);
  plan.tp = o.tp.value_or(plan.tp);
  plan.cp = o.cp.value_or(plan.cp);
  plan.dp = o.dp.value_or(plan.dp);
  plan.zero = o.zero.value_or(plan.zero);
  if (o.sequence_parallel) plan.sequence_parallel = true;
  if (o.overlap_grad_reduce) plan.overlap_grad_reduce = true;
  if (o.sequence_parallel && plan.tp == 1)
    throw UsageError("--sequence-parallel needs --tp above 1");
  if (o.tp && plan.tp == 1) plan.sequence_parallel = false;
}

void add_parallel_lists(CLI::App& command, ParallelLists& o) {
  command.add_option("--tp", o.tp, std::string(kTp) + ": 8, 1,2,4 or 1..8")->capture_default_str();
  command.add_option("--cp", o.cp, kCp)->capture_default_str();
  command.add_option("--dp", o.dp, kDp)->capture_default_str();
  command.add_option("--zero", o.zero, kZero)->capture_default_str();
  add_flags(command, o);
}

void apply(const ParallelLists& o, SweepRequest& request) {
  refuse_experts(o.ep);
  request.tp = parse_numbers(o.tp, "--tp");
  request.cp = parse_numbers(o.cp, "--cp");
  request.dp = parse_numbers(o.dp, "--dp");
  request.zero.clear();
  for (const std::string& word : parse_words(o.zero)) {
    if (word.size() != 1 || word[0] < '0' || word[0] > '3') {
      throw UsageError(fmt::format("--zero {}: expected stages from 0 to 3, as 0,1", o.zero));
    }
    request.zero.push_back(word[0] - '0');
  }
  request.base.sequence_parallel = o.sequence_parallel;
  request.base.overlap_grad_reduce = o.overlap_grad_reduce;
}

void require_devices(const Plan& plan, const Cluster& cluster, const std::filesystem::path& file) {
  if (plan.devices() <= cluster.devices()) return;
  throw NoFeasiblePlan(fmt::format("K tp cp dp = {} {} {} {} needs {} devices, {} has {}", plan.pp,
                                   plan.tp, plan.cp, plan.dp, plan.devices(), file.string(),
                                   cluster.devices()));
}

}  // namespace weir

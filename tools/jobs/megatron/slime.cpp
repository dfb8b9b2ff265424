// Names and defaults are those of slime/utils/arguments.py, slime/utils/dp_schedule.py and
// slime/backends/megatron_utils/arguments.py @624b824a8.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/slime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/model/limits.hpp"

namespace weir {
namespace {

constexpr std::int64_t kMostSamples = 1 << 30;

// A sample is a prompt with its answer, as long as it may become. nullopt: the data's own, as in
// fine-tuning.
std::optional<std::int64_t> longest_sample(Arguments& a, std::vector<Remark>& remarks) {
  const auto length = [&a](const char* name) { return a.maybe_integer(name, 1, kLargestSize); };
  const auto context = length("rollout-max-context-len");
  const auto answer = length("rollout-max-response-len");
  const auto prompt = length("rollout-max-prompt-len");
  // Where only the context bounds a prompt, slime lets it be one token less than that.
  if (!answer || (context && !prompt)) return context;
  if (!prompt) {
    remarks.push_back({"rollout-max-response-len",
                       "prompts are not counted in samples: no --rollout-max-prompt-len or "
                       "--rollout-max-context-len bounds them"});
  }
  const std::int64_t both = std::min(kLargestSize, *answer + prompt.value_or(0));
  // A context ends an answer that would go beyond it.
  return context ? std::min(*context, both) : both;
}

// slime sends samples of any length through its pipeline, so that a script's --seq-length is a
// placeholder where the rollout bounds them. Throws InputError where nothing says how long they
// are.
void take_length(Arguments& a, const GivenFields& given, std::vector<Remark>& remarks) {
  if (given.seq_length) return a.refill("seq-length", fmt::to_string(*given.seq_length));
  const auto length = longest_sample(a, remarks);
  if (!length && !a.says("seq-length")) {
    a.fail(
        "seq-length",
        "is missing: slime's samples are as long as the data here, no --rollout-max-response-len "
        "or --rollout-max-context-len bounds them; say --seq-length, and -b for samples a "
        "micro-batch");
  }
  if (!length) return;
  const std::string own = fmt::to_string(*length), said = a.values("seq-length");
  if (a.says("seq-length") && said != own) {
    remarks.push_back(
        {"seq-length",
         fmt::format("{} is a placeholder in slime: samples are of up to {} tokens, as the rollout "
                     "bounds them; a given --seq-length says otherwise",
                     said, own)});
  }
  a.refill("seq-length", own);
}

// A step is of so many samples; of several steps a rollout each has its share.
std::optional<std::int64_t> samples_a_step(Arguments& a) {
  const auto steps = a.maybe_integer("num-steps-per-rollout", 1, kMostSamples);
  // A rollout's size that is not known says nothing of a step's.
  if (!steps || !a.says("rollout-batch-size")) return std::nullopt;
  const std::int64_t prompts = a.integer("rollout-batch-size", 1, kMostSamples);
  const std::int64_t each = a.integer_or("n-samples-per-prompt", 1, 1, kMostRanks);
  return std::max<std::int64_t>(1, prompts * each / *steps);
}

// A rollout's share where the script says no mini-batch; one that it says must be that.
void take_samples(Arguments& a, const GivenFields& given) {
  const auto samples = samples_a_step(a);
  if (!samples) return;
  const std::string share = fmt::format("--num-steps-per-rollout {} leaves {} samples a step",
                                        a.values("num-steps-per-rollout"), *samples);
  const auto said =
      a.says("global-batch-size") ? a.maybe_integer("global-batch-size", 1, kMostSamples) : samples;
  if (said != samples) a.fail("global-batch-size", fmt::format("{}, but {}", *said, share));
  if (given.global_batch_size && *given.global_batch_size != *samples)
    contradicts("global-batch-size", fmt::to_string(*given.global_batch_size), "the job", share);
  a.refill("global-batch-size", fmt::to_string(*samples));
}

// The most samples at once that divide a replica's into whole groups of micro-batches; nullopt:
// not even one at once does.
std::optional<std::int64_t> largest_divisor(std::int64_t samples, std::int64_t most,
                                            std::int64_t group) {
  for (std::int64_t b = std::min(samples, most); b > 0; --b)
    if (samples % b == 0 && samples / b % group == 0) return b;
  return std::nullopt;
}

}  // namespace

bool is_slimes(const Arguments& a) {
  // By their names: the checkpoint's folder is mostly one of the environment, which is not known
  // here, and a size may be.
  const std::vector<std::string> given = a.names();
  const auto has = [&given](const char* name) {
    return std::ranges::find(given, name) != given.end();
  };
  return has("hf-checkpoint") && has("rollout-batch-size");
}

void take_slimes_defaults(Arguments& a, const GivenFields& given, std::vector<Remark>& remarks) {
  if (!is_slimes(a)) return;
  if (!a.says("fp16") && !a.says("bf16")) a.fill("bf16", "", "dtype");
  if (!a.says("use-distributed-optimizer")) a.fill("use-distributed-optimizer", "", "zero");
  // Beside packed micro-batches the script's own number says nothing.
  if (given.micro_batch_size && a.says("use-dynamic-batch-size"))
    a.refill("micro-batch-size", fmt::to_string(*given.micro_batch_size));
  take_samples(a, given);
  take_length(a, given, remarks);
}

// Packed micro-batches are filled up to --max-tokens-per-gpu on each of cp devices, a longer sample
// alone in its own; a plan's are all alike, so that as many go together as divide the mini-batch.
// With virtual stages slime splits them until each replica has whole groups, of K where nothing
// else is said.
void take_slimes_micro_batch(Arguments& a, const Plan& plan, const GivenFields& given,
                             std::vector<Remark>& remarks) {
  if (!is_slimes(a) || given.micro_batch_size) return;
  const auto samples = a.maybe_integer("global-batch-size", 1, kMostSamples);
  // Two of b, M and G give the third.
  if (samples && given.microbatches) return;
  if (!a.says("use-dynamic-batch-size")) {
    if (!a.says("micro-batch-size")) a.fill("micro-batch-size", "1", "micro-batch-size");
    return;
  }
  const std::int64_t tokens = a.integer("max-tokens-per-gpu", 1, kLargestSize);
  const std::int64_t most = std::max<std::int64_t>(1, tokens * plan.cp / plan.seq_length);
  if (samples && *samples % plan.dp != 0) {
    a.fail("global-batch-size",
           fmt::format("{} samples are not equally many for each of {} replicas: slime packs them "
                       "unevenly, a plan cannot",
                       *samples, plan.dp));
  }
  const std::int64_t group =
      plan.vpp > 1
          ? a.integer_or("microbatch-group-size-per-virtual-pipeline-stage", plan.pp, 1, kMostRanks)
          : 1;
  const auto whole = samples ? largest_divisor(*samples / plan.dp, most, group) : 1;
  const std::int64_t b = whole.value_or(1);
  a.refill("micro-batch-size", fmt::to_string(b));
  remarks.push_back(
      {"max-tokens-per-gpu",
       fmt::format("{} tokens on each of cp {}: {} sample{} of {} tokens, all equally long, a "
                   "micro-batch{}; --seq-length and -b say otherwise",
                   tokens, plan.cp, b, b == 1 ? "" : "s", plan.seq_length,
                   whole ? "" : fmt::format(", though a replica's are no groups of {}", group))});
}

}  // namespace weir

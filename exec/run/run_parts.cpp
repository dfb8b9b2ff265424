// The clock, data, checks and medians that both kinds of run use.
// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/run/labelled_tokens.hpp"
#include "exec/weights/model_weights.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

namespace {

const HeadShape& head_of(const ResolvedPlan& loaded) {
  return std::get<HeadShape>(loaded.model.layers.back().shape);
}

std::int64_t targets_of(const ResolvedPlan& loaded) {
  return sample_targets(loaded.model, loaded.plan.seq_length);
}

// Of a model of masked tokens, reads the files that have labels.
std::function<std::vector<std::int32_t>(const std::filesystem::path&)> labelled_reader(
    const ResolvedPlan& loaded) {
  if (sample_kind(loaded.model) != SampleKind::masked_tokens) return nullptr;
  const auto& embedding = std::get<EmbeddingShape>(loaded.model.layers.front().shape);
  const LabelledSizes sizes{loaded.plan.seq_length, embedding.vocabulary, embedding.token_types};
  return [sizes](const std::filesystem::path& file) {
    return holds_labels(file) ? read_labelled(file, sizes) : std::vector<std::int32_t>{};
  };
}

BatchRequest batches_of(const ResolvedPlan& loaded, std::vector<std::filesystem::path> files) {
  const FeatureMap* image = images_of(loaded.model);
  const Layer& first = loaded.model.layers.front();
  const std::int64_t vocabulary = image == nullptr
                                      ? std::get<EmbeddingShape>(first.shape).vocabulary
                                      : head_of(loaded).vocabulary;
  return {.files = std::move(files),
          .vocabulary = vocabulary,
          .seq_length = loaded.plan.seq_length,
          .image = image == nullptr ? FeatureMap{} : *image,
          .targets = targets_of(loaded),
          .masked = sample_kind(loaded.model) == SampleKind::masked_tokens,
          .labelled = labelled_reader(loaded),
          .seed = loaded.plan.seed,
          .samples = loaded.plan.global_batch_size()};
}

}  // namespace

Batches open_batches(const ResolvedPlan& loaded, const RunOptions& options) {
  return Batches(batches_of(loaded, options.data));
}

Batches open_evaluation(const ResolvedPlan& loaded, const RunOptions& options) {
  BatchRequest request = batches_of(loaded, {*options.evaluate});
  request.shuffled = false;
  Batches batches(std::move(request));
  if (batches.windows() < loaded.plan.global_batch_size()) {
    throw InputError(options.evaluate->string(), "",
                     fmt::format("{} samples, expected at least a mini-batch of {}",
                                 batches.windows(), loaded.plan.global_batch_size()));
  }
  return batches;
}

namespace {

// The first missing folder of `output` is made later; its disk is that of what is there.
std::filesystem::path first_there(std::filesystem::path folder) {
  std::error_code none;  // what cannot be looked at is told where it is written
  while (folder.has_relative_path() && !std::filesystem::exists(folder, none))
    folder = folder.parent_path();
  return folder;
}

// How many checkpoints steps `first + 1` to `first + steps` have.
std::int64_t checkpoints_of(std::int64_t first, std::int64_t steps, std::int64_t every) {
  if (steps == 0) return 0;
  const std::int64_t last = first + steps;
  return last / every - first / every + (last % every == 0 ? 0 : 1);
}

}  // namespace

void require_space(const ResolvedPlan& loaded, const RunOptions& options, std::int64_t first_step) {
  if (!options.output || options.checkpoint_every == 0) return;
  const std::int64_t due =
      checkpoints_of(first_step, options.warmup_steps + options.steps, options.checkpoint_every);
  std::error_code unknown;
  // The output's folder may not be there yet: the nearest one above it is on the same disk.
  const auto space =
      std::filesystem::space(first_there(std::filesystem::absolute(*options.output)), unknown);
  if (unknown || due == 0) return;
  const std::int64_t each = checkpoint_bytes(loaded);
  // Some file systems say more than a signed number holds.
  const auto there = static_cast<std::int64_t>(
      std::min<std::uintmax_t>(space.available, std::numeric_limits<std::int64_t>::max()));
  if (there < each) {
    throw RunFailed(fmt::format("before the first step: a checkpoint takes {}, and {} has {} left",
                                format_bytes(Bytes(each)), options.output->string(),
                                format_bytes(Bytes(there))));
  }
  // Room for one is enough to begin: that not all will fit is only said.
  if (there / each < due) {
    options.note(fmt::format("{} checkpoints of {} are to be written, and {} has room for {}", due,
                             format_bytes(Bytes(each)), options.output->string(), there / each));
  }
}

Beginning begin_run(const ResolvedPlan& loaded, const RunOptions& options) {
  Beginning from;
  const bool keeps = options.output && options.checkpoint_every > 0;
  // Read the data's hash only where it is asked for: the data may be long.
  if (options.resume || keeps) from.trained = what_is_trained(loaded, options.data, options.init);
  if (options.resume) {
    const Checkpoint checkpoint = find_checkpoint(loaded, *options.resume, from.trained);
    for (const std::string& line : checkpoint.passed_over) options.fault(line);
    if (!checkpoint.state_sha256) {
      options.note(fmt::format("{} has no seal, as an earlier version wrote it: damage is not seen",
                               checkpoint.folder.string()));
    }
    from.state = checkpoint_state(loaded, checkpoint);
    from.step = checkpoint.step;
    from.resumed = checkpoint.folder;
    from.state_sha256 = checkpoint.state_sha256.value_or("");
    // Of the weights that the first of these runs began with, as it was written there.
    if (checkpoint.trained.contains("init_sha256"))
      from.trained["init_sha256"] = checkpoint.trained.at("init_sha256");
  } else {
    from.state = options.init ? weights_of(loaded, *options.init) : seeded_state(loaded);
  }
  return from;
}

void clear_checkpoints(const RunOptions& options) {
  if (!options.restart || !options.output || !holds_checkpoints(*options.output)) return;
  remove_checkpoints(*options.output);
  options.note(
      fmt::format("checkpoints of another run in {} are removed", options.output->string()));
}

void write_down_actions(const Program& program, Rank rank, int replica, const RunOptions& options,
                        Activity& activity) {
  if (!options.output) return;
  activity.write_down(rank, std::make_unique<LastAction>(*options.output, program, rank, replica));
}

std::unique_ptr<Watchdog> watch_actions(const Program& program, const Activity& activity,
                                        const RunOptions& options) {
  if (!options.hangs) return nullptr;
  return std::make_unique<Watchdog>(
      Watchdog::Options{program, activity, options.longest_action, now_ns, options.hangs});
}

bool checkpoint_due(const RunOptions& options, std::int64_t trained, bool ends) {
  if (!options.output || options.checkpoint_every == 0) return false;
  return ends || trained % options.checkpoint_every == 0;
}

void save_checkpoint(const ResolvedPlan& loaded, const RunOptions& options, const Beginning& from,
                     std::int64_t trained, const RunEnd& end, CheckpointsKept& kept) {
  const std::int64_t began = now_ns();
  std::filesystem::path folder;
  try {
    folder =
        write_checkpoint(loaded, {*options.output, trained, from.trained}, end.fetch, end.leads);
  } catch (const std::runtime_error& why) {
    if (!end.leads) throw;  // it writes nothing: this is of what it gives
    // Hours of training are worth more than this: there may be room for the next one.
    const std::string line =
        fmt::format("the checkpoint of step {} could not be written ({})", trained, why.what());
    if (kept.failed) return;  // said once: the disk is full for the next ones, too
    options.fault(line + ": training goes on");
    kept.failed = line;
    return;
  }
  if (end.leads) kept.written.push_back({trained, folder, Seconds(Nanoseconds(now_ns() - began))});
}

void require_consistent(const RunOptions& options) {
  if (options.dump && options.steps == 0)
    throw UsageError("a dump is of the last step: there is none");
  if (options.graphs == Graphs::always && (options.dump || options.evaluate)) {
    throw UsageError(
        "graphs repeat one step: there is no dump and no evaluation, which are steps of their own");
  }
  if (options.init && options.resume)
    throw UsageError("init and resume exclude each other: a checkpoint has weights");
  const bool trains = options.backend != BackendKind::synthetic;
  if (!trains && (options.init || options.save || options.dump || options.evaluate ||
                  options.resume || options.checkpoint_every > 0)) {
    throw UsageError("timed waits have no weights, gradients or loss");
  }
  if (options.dump && options.backend != BackendKind::cpu)
    throw MissingComponent("logits and gradients are dumped on the cpu backend only");
}

Evaluation evaluate(const ResolvedPlan& loaded, const Batches& batches,
                    const std::function<double(std::uint32_t step)>& loss_of) {
  const std::int64_t each = loaded.plan.global_batch_size();
  const std::int64_t steps = batches.windows() / each;
  Evaluation evaluation;
  const std::int64_t targets = each * targets_of(loaded);
  double weights = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto number = static_cast<std::uint32_t>(step);
    const std::int64_t labels = batches.labels(number).value_or(targets);
    // 1 where every target has a label.
    const double weight = static_cast<double>(labels) / static_cast<double>(targets);
    evaluation.loss += weight * loss_of(number);
    evaluation.tokens += labels;
    weights += weight;
  }
  if (weights > 0) evaluation.loss /= weights;
  evaluation.samples = steps * each;
  return evaluation;
}

std::vector<std::int32_t> tokens_of_step(const ResolvedPlan& loaded, const Batches& batches,
                                         std::int64_t step) {
  const std::int64_t samples = loaded.plan.global_batch_size();
  const std::int64_t each = sample_words(loaded.model, loaded.plan.seq_length);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(samples * each));
  for (std::int64_t i = 0; i < samples; ++i) {
    batches.sample(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(i),
                   tokens.data() + i * each);
  }
  return tokens;
}

void write_files(const ResolvedPlan& loaded, const RunOptions& options, const RunEnd& end,
                 std::optional<std::string>& not_kept) {
  const auto keep = [&](const std::filesystem::path& file, ParameterPart part,
                        const std::vector<NamedValues>& more) {
    try {
      write_weights(loaded, {.file = file, .part = part, .leads = end.leads}, end.fetch, more);
    } catch (const std::runtime_error& why) {
      if (!end.leads) throw;  // as in save_checkpoint
      not_kept = (not_kept ? *not_kept + "; " : "") + why.what();
    }
  };
  if (options.save) keep(*options.save, ParameterPart::values, {});
  if (!options.dump || !end.dumps) return;
  const std::int64_t samples = loaded.plan.global_batch_size();
  const std::int64_t words = sample_words(loaded.model, loaded.plan.seq_length);
  // Of images all words are numbers, the label last.
  const bool images = images_of(loaded.model) != nullptr;
  keep(*options.dump, ParameterPart::gradient,
       {{{"logits", {samples, targets_of(loaded), head_of(loaded).vocabulary}},
         std::as_bytes(std::span(end.logits))},
        {{images ? "images" : "tokens", {samples, words}, images ? "F32" : "I32"},
         std::as_bytes(std::span(end.tokens))}});
}

std::vector<Rank> loss_ranks(const Program& program) {
  const ScheduleShape& shape = program.shape();
  std::vector<Rank> ranks(static_cast<std::size_t>(shape.units()));
  for (const Operation& operation : program.operations()) {
    const Action& action = operation.action;
    if (action.kind == ActionKind::F && shape.is_last(action.stage))
      ranks[action.microbatch.position()] = shape.rank_of(action.stage);
  }
  return ranks;
}

void require_durations(const Program& program, const RunOptions& options) {
  if (options.synthetic_duration_ns.size() != program.size()) {
    throw RunFailed("the synthetic backend needs a duration for every operation");
  }
}

std::int64_t compute_actions(const Program& program, std::optional<Rank> of) {
  std::int64_t actions = 0;
  for (const Lane& lane : program.lanes()) {
    if (lane.kind == LaneKind::compute && (!of || lane.rank == *of))
      actions += lane.last - lane.first;
  }
  return actions;
}

Seconds median_step(const std::vector<StepResult>& steps, int warmup) {
  std::vector<double> measured;
  for (std::size_t step = static_cast<std::size_t>(warmup); step < steps.size(); ++step)
    measured.push_back(steps[step].time.count());
  return measured.empty() ? Seconds(0) : Seconds(median(measured));
}

}  // namespace weir

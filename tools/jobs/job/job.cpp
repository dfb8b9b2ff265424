// From blocks to boundaries and back, models of equal blocks, and how many replicas a job has.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/model/readers/layer_list.hpp"
#include "plan/words/error.hpp"

namespace weir {

std::string_view to_string(Fate fate) {
  switch (fate) {
    case Fate::carried:
      return "carried";
    case Fate::no_effect:
      return "no effect";
    case Fate::changed:
      return "changed";
    case Fate::not_carried:
      return "not carried";
    case Fate::unknown:
      return "unknown";
  }
  return "";
}

namespace {

// An embedding, blocks, a norm and a head, whatever the blocks are.
bool has_blocks_between(const Model& model) {
  const std::size_t layers = model.layers.size();
  if (layers < 4 || !model.skips.empty()) return false;
  for (std::size_t i = 1; i + 2 < layers; ++i) {
    if (!std::holds_alternative<TransformerShape>(model.layers[i].shape)) return false;
  }
  return std::holds_alternative<EmbeddingShape>(model.layers.front().shape) &&
         std::holds_alternative<NormShape>(model.layers[layers - 2].shape) &&
         std::holds_alternative<HeadShape>(model.layers.back().shape);
}

}  // namespace

int predicting_blocks(const Model& model) {
  return static_cast<int>(std::ranges::count_if(model.layers, [](const Layer& layer) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    return block != nullptr && predicts(*block);
  }));
}

std::optional<int> predicting_stage(const Plan& plan, const Model& model) {
  const int blocks = predicting_blocks(model);
  const auto first = static_cast<int>(model.layers.size()) - 1 - blocks;
  const auto stage_of = [&plan](int layer) {
    return static_cast<int>(std::ranges::upper_bound(plan.boundaries, layer) -
                            plan.boundaries.begin());
  };
  if (stage_of(first) != stage_of(first + blocks - 1)) return std::nullopt;
  return stage_of(first);
}

void take_lengths(const GivenFields& given, const std::string& file, Job& job) {
  SequenceLengths& lengths = job.plan.lengths;
  lengths = given.lengths;
  if (job.rows.name.empty()) return;
  const std::string_view rows = to_string(job.rows.rows);
  if (lengths.known()) {
    if (given.rows_said && lengths.rows != job.rows.rows)
      contradicts("rows", std::string(to_string(lengths.rows)), file, job.rows.name);
    lengths.rows = job.rows.rows;
    lengths.dynamic_cp = job.rows.dynamic_cp;
    if (lengths.dynamic_cp == 0) return;
    if (const auto misfit = cannot_lie_in_rows(job.plan))
      throw InputError(file, misfit->key, misfit->reason);
    return;
  }
  if (job.rows.dynamic_cp > 0) {
    throw InputError(file, job.rows.name,
                     "each sequence's devices follow its length, which the job does not say: give "
                     "--lengths, a file of them or MEAN:MOST");
  }
  if (job.rows.rows == RowsOf::longest) {
    throw InputError(file, job.rows.name,
                     "rows are as long as their longest sequence, which the job does not say: give "
                     "--lengths, a file of them or MEAN:MOST");
  }
  job.remarks.push_back(
      {job.rows.name,
       fmt::format("rows are {} with sequences whose lengths the job does not say: attention is "
                   "forecast over whole rows (--lengths: a file of them or MEAN:MOST)",
                   rows)});
}

std::vector<int> boundaries_of_blocks(const std::vector<int>& blocks) {
  std::vector<int> boundaries;
  int layer = 1;  // after the embedding
  for (std::size_t s = 0; s + 1 < blocks.size(); ++s) {
    layer += blocks[s];
    boundaries.push_back(layer);
  }
  return boundaries;
}

std::optional<std::vector<int>> blocks_of_boundaries(const Plan& plan, const Model& given) {
  Model model = given;
  set_prediction(model, 0);
  if (!has_blocks_between(model)) return std::nullopt;
  const auto layers = static_cast<int>(model.layers.size());
  const bool predicting = predicting_blocks(given) > 0;
  if (predicting && !predicting_stage(plan, given)) return std::nullopt;
  std::vector<int> blocks;
  int before = 1;
  for (int boundary : plan.boundaries) {
    // What predicts, and the head, may be on stages of their own.
    if (predicting || boundary == layers - 1) boundary = std::min(boundary, layers - 2);
    if (boundary < 1 || boundary > layers - 2) return std::nullopt;
    blocks.push_back(boundary - before);
    before = boundary;
  }
  blocks.push_back(layers - 2 - before);
  return blocks;
}

Recompute rebuilt_blocks(const std::vector<bool>& blocks) {
  Recompute recompute{.mode = RecomputeMode::full};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const int layer = static_cast<int>(b) + 1;  // after the embedding
    if (!blocks[b]) continue;
    const bool follows = b > 0 && blocks[b - 1];
    if (!follows) recompute.layers.push_back({layer, layer});
    recompute.layers.back().last = layer + 1;
  }
  if (recompute.layers.empty()) return {};
  if (std::ranges::find(blocks, false) == blocks.end()) recompute.layers.clear();
  return recompute;
}

bool is_language_model(const Model& model) {
  const std::size_t layers = model.layers.size();
  if (layers < 4 || !model.skips.empty()) return false;
  const auto* embedding = std::get_if<EmbeddingShape>(&model.layers.front().shape);
  const auto* head = std::get_if<HeadShape>(&model.layers.back().shape);
  if (embedding == nullptr || embedding->patch > 0 || embedding->shared) return false;
  if (head == nullptr || head->pooled || head->dense != HeadDense::none || head->vocabulary == 0)
    return false;
  if (!std::holds_alternative<NormShape>(model.layers[layers - 2].shape)) return false;
  return std::all_of(model.layers.begin() + 1, model.layers.end() - 2, [](const Layer& layer) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    return block != nullptr && !block->cross_attention && block->relative_buckets == 0;
  });
}

void require_language_model(const Model& given, const std::string& file) {
  Model model = given;
  set_prediction(model, 0);
  if (!is_language_model(model)) {
    throw InputError(file, "model",
                     fmt::format("{}: expected a table of tokens, blocks, a norm and a head",
                                 model.name.empty() ? "what is given" : model.name));
  }
}

std::optional<Decoder> as_decoder(const Model& given) {
  Model model = given;
  set_prediction(model, 0);
  if (!is_language_model(model)) return std::nullopt;
  const std::size_t layers = model.layers.size();
  const Decoder decoder{.embedding = std::get<EmbeddingShape>(model.layers.front().shape),
                        .block = std::get<TransformerShape>(model.layers[1].shape),
                        .blocks = static_cast<std::int64_t>(layers) - 3,
                        .norm = std::get<NormShape>(model.layers[layers - 2].shape),
                        .head = std::get<HeadShape>(model.layers.back().shape)};
  // Equal lists are equal layers: the list says everything a shape does.
  Model same = decoder_model(decoder, model.seq_length), named = model;
  named.name.clear();
  same.initializer_range = model.initializer_range;
  for (std::size_t i = 0; i < layers; ++i) named.layers[i].name = same.layers[i].name;
  if (to_layer_list(named) != to_layer_list(same)) return std::nullopt;
  return decoder;
}

int replicas_of(const JobOptions& options, std::optional<std::int64_t> gpus, const Plan& plan,
                const std::string& file, std::vector<Remark>& remarks) {
  const std::int64_t model_parallel = std::int64_t{plan.pp} * plan.tp * plan.cp;
  if (options.gpus) gpus = *options.gpus;
  if (gpus && *gpus % model_parallel != 0) {
    throw DeviceCountError(file, options.gpus ? "gpus" : "devices",
                           fmt::format("{} is no multiple of tp {} times cp {} times pp {}", *gpus,
                                       plan.tp, plan.cp, plan.pp));
  }
  if (options.dp) {
    if (options.gpus && *gpus / model_parallel != *options.dp) {
      throw UsageError(
          fmt::format("gpus {} contradicts dp {}: tp {} times cp {} times pp {} leave {} replicas",
                      *gpus, *options.dp, plan.tp, plan.cp, plan.pp, *gpus / model_parallel));
    }
    return *options.dp;
  }
  if (!gpus && options.machine && *options.machine % model_parallel == 0) {
    gpus = *options.machine;
    remarks.push_back({"data parallelism", fmt::format("the file does not say on how many devices "
                                                       "it runs: all {} of the cluster",
                                                       *gpus)});
  }
  if (gpus && *gpus / model_parallel >= 1) return static_cast<int>(*gpus / model_parallel);
  remarks.push_back({"data parallelism",
                     "the file does not say on how many devices it runs: one replica supposed; "
                     "gpus or dp says otherwise"});
  return 1;
}

}  // namespace weir

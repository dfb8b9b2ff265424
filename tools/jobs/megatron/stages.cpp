// Where a Megatron job's stages begin: equal numbers of blocks, uneven ends, or a layout.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <numeric>

#include "plan/words/error.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/layout/layout.hpp"

namespace weir {
namespace {

// Blocks of each stage when stages of the first and last rank may hold other numbers than those
// between.
class StageBlocks {
 public:
  StageBlocks(Arguments& a, const Plan& plan, std::int64_t blocks)
      : a_(a), plan_(plan), blocks_(blocks) {
    const std::string method = a.text_or("pp-partition-method", "");
    const bool by_type = method.starts_with("type:") && method.find("embed") != std::string::npos;
    embedding_ = a.flag("account-for-embedding-in-pipeline-split") || by_type;
    loss_ = a.flag("account-for-loss-in-pipeline-split") || by_type;
  }

  // Blocks, and one more for an embedding or a loss that takes the place of a block.
  std::int64_t counted() const { return blocks_ + (embedding_ ? 1 : 0) + (loss_ ? 1 : 0); }

  std::vector<int> blocks_of_stages() {
    if (const auto listed = a_.text("num-layer-list")) return listed_blocks(*listed);
    const auto first = a_.maybe_integer("decoder-first-pipeline-num-layers", 0, blocks_);
    const auto last = a_.maybe_integer("decoder-last-pipeline-num-layers", 0, blocks_);
    if ((first || last) && (embedding_ || loss_)) {
      a_.fail("decoder-first-pipeline-num-layers",
              "excludes account-for-embedding and account-for-loss");
    }
    if (first || last) return uneven(first, last);
    std::vector<int> blocks(static_cast<std::size_t>(plan_.stages()),
                            divided(counted(), plan_.stages(), "num-layers"));
    if (embedding_) --blocks.front();
    if (loss_) --blocks.back();
    return blocks;
  }

 private:
  // ModelLink's and MindSpeed's "2,3,3,2": a number of blocks for each stage.
  std::vector<int> listed_blocks(const std::string& listed) {
    std::vector<int> blocks;
    std::int64_t sum = 0;
    const char* at = listed.data();
    const char* const end = at + listed.size();
    for (; at < end; at += at < end && *at == ',' ? 1 : 0) {
      int count = 0;
      const auto [next, error] = std::from_chars(at, end, count);
      const bool apart = next == end || (*next == ',' && next + 1 < end);
      if (error != std::errc{} || count < 0 || !apart)
        a_.fail("num-layer-list", "expected numbers of blocks with commas between, as 2,3,3,2");
      blocks.push_back(count);
      sum += count;
      at = next;
    }
    if (static_cast<int>(blocks.size()) != plan_.stages() || sum != blocks_) {
      a_.fail("num-layer-list",
              fmt::format("has {} stages of {} blocks together; expected {} of num-layers {}",
                          blocks.size(), sum, plan_.stages(), blocks_));
    }
    return blocks;
  }
  std::vector<int> uneven(std::optional<std::int64_t> first, std::optional<std::int64_t> last) {
    const std::int64_t others = plan_.pp - (first ? 1 : 0) - (last ? 1 : 0);
    const std::int64_t rest = blocks_ - first.value_or(0) - last.value_or(0);
    if (others < 0 || rest < 0 || (others == 0 && rest != 0)) {
      a_.fail("num-layers", "does not agree with the layers of the first and last rank");
    }
    const int usual = others > 0 ? divided(rest, others * plan_.vpp, "num-layers") : 0;
    std::vector<int> blocks;
    for (int s = 0; s < plan_.stages(); ++s) {
      const int rank = s % plan_.pp;
      const bool at_first = first && rank == 0, at_last = last && rank == plan_.pp - 1;
      blocks.push_back(at_first  ? divided(*first, plan_.vpp, "decoder-first-pipeline-num-layers")
                       : at_last ? divided(*last, plan_.vpp, "decoder-last-pipeline-num-layers")
                                 : usual);
    }
    return blocks;
  }
  int divided(std::int64_t blocks, std::int64_t stages, std::string_view name) {
    if (blocks % stages != 0) {
      a_.fail(name, fmt::format("{} blocks do not divide into {} equal stages", blocks, stages));
    }
    return static_cast<int>(blocks / stages);
  }

  Arguments& a_;
  const Plan& plan_;
  std::int64_t blocks_;
  bool embedding_ = false, loss_ = false;  // counted as a block each
};

// What predicts further tokens may have a stage of its own, behind the final norm, which is with
// the last block then; and the head one behind that.
std::vector<int> boundaries_of(const MegatronLayout& layout, std::int64_t blocks) {
  std::vector<int> boundaries = boundaries_of_blocks(layout.blocks);
  if (layout.predictions == 0) return boundaries;
  const int first = static_cast<int>(blocks) + 2, head = first + layout.predictions;
  for (int s = 1; s <= static_cast<int>(boundaries.size()); ++s) {
    int& start = boundaries[static_cast<std::size_t>(s) - 1];
    const bool no_block = layout.blocks[static_cast<std::size_t>(s)] == 0;
    if (s > layout.predicting) start = head;
    if (s == layout.predicting && no_block) start = first;
  }
  return boundaries;
}

MegatronLayout stages_of_layout(const std::string& layout, Plan& plan, std::int64_t blocks,
                                const std::string& file) {
  const std::string key = "--pipeline-model-parallel-layout";
  MegatronLayout parsed = parse_layout(layout, file, key);
  const auto stages = static_cast<int>(parsed.blocks.size());
  if (stages % plan.pp != 0) {
    throw InputError(file, key,
                     fmt::format("{} stages are no multiple of {} ranks", stages, plan.pp));
  }
  plan.vpp = stages / plan.pp;
  const std::int64_t sum = std::accumulate(parsed.blocks.begin(), parsed.blocks.end(), 0LL);
  if (sum != blocks)
    throw InputError(file, key, fmt::format("holds {} blocks of num-layers {}", sum, blocks));
  if (parsed.predictions != plan.prediction_layers) {
    throw InputError(file, key,
                     fmt::format("has {} m, --mtp-num-layers says {}", parsed.predictions,
                                 plan.prediction_layers));
  }
  return parsed;
}

}  // namespace

void set_stages(Arguments& a, Plan& plan, std::int64_t blocks, const std::string& file) {
  constexpr std::string_view kPerChunk = "num-layers-per-virtual-pipeline-stage";
  const auto per_chunk = a.maybe_integer(kPerChunk, 1, blocks);
  const auto chunks = a.maybe_integer("num-virtual-stages-per-pipeline-rank", 1, 1024);
  const auto layout = a.text("pipeline-model-parallel-layout");
  if (per_chunk && (chunks || layout)) {
    a.fail(kPerChunk,
           "num-virtual-stages-per-pipeline-rank and pipeline-model-parallel-layout exclude each "
           "other");
  }
  if (layout) {
    const MegatronLayout parsed = stages_of_layout(*layout, plan, blocks, file);
    if (chunks && *chunks != plan.vpp) {
      a.fail("num-virtual-stages-per-pipeline-rank",
             fmt::format("{} contradicts the layout's {} stages a rank", *chunks, plan.vpp));
    }
    plan.boundaries = boundaries_of(parsed, blocks);
    return;
  }
  StageBlocks stages(a, plan, blocks);
  // Megatron-LM counts an embedding and a loss that are accounted for before it divides
  // (megatron/training/arguments.py:961-977 @d98e8a64ddf3).
  const std::int64_t counted = stages.counted();
  if (per_chunk && counted % (*per_chunk * plan.pp) != 0) {
    a.fail(kPerChunk, fmt::format("times {} ranks does not divide num-layers", plan.pp));
  }
  const std::int64_t usual =
      a.flag("zero-bubble-v-schedule") ? 2 : 1;  // a V has two chunks a rank, unasked
  plan.vpp =
      static_cast<int>(chunks.value_or(per_chunk ? counted / (*per_chunk * plan.pp) : usual));
  plan.boundaries = boundaries_of_blocks(stages.blocks_of_stages());
}

}  // namespace weir

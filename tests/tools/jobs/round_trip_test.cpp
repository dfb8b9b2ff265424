// plan -> export -> plan --from: what reads back is the plan, but for what the export says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/job/plan_json.hpp"
#include "plan/words/error.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::round_trip_test {
namespace {

// Seeded plans of 8 blocks: each word that jobs have, drawn as people ask for it.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  Plan plan() {
    Plan p;
    p.seq_length = 128;
    p.pp = one_of({1, 2, 4});
    p.vpp = p.pp > 1 ? one_of({1, 1, 2}) : 1;
    p.schedule = p.vpp > 1 ? "interleaved-1f1b" : "1f1b";
    p.tp = one_of({1, 1, 2});
    p.sequence_parallel = p.tp > 1 && one_of({0, 1}) == 1;
    p.cp = one_of({1, 1, 2});
    p.dp = one_of({1, 2, 4});
    p.microbatches = p.pp * one_of({1, 2, 3});
    p.micro_batch_size = one_of({1, 2});
    p.dtype = one_of({Dtype::bf16, Dtype::bf16, Dtype::fp16, Dtype::fp32});
    p.attention = one_of({AttentionKind::fused, AttentionKind::unfused});
    if (p.dp * p.cp > 1) {
      p.zero = one_of({0, 1, 1, 2, 3});
      p.overlap_grad_reduce = one_of({0, 1}) == 1;
    }
    if (p.pp > 1 && p.dp > 1 && one_of({0, 1}) == 1) p.rank_order = RankOrder::tp_cp_pp_dp;
    p.recompute.mode = one_of(
        {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full, RecomputeMode::stage});
    const int each = 8 / p.stages();
    for (int s = 1; s < p.stages(); ++s) p.boundaries.push_back(1 + s * each);
    // A block more on the first stage, one less on the second.
    if (p.stages() > 1 && each > 1 && one_of({0, 1}) == 1) ++p.boundaries.front();
    p.optimizer.learning_rate = one_of({1e-3, 3e-4});
    p.optimizer.clip_norm = one_of({0.0, 1.0});
    p.optimizer.weight_decay = 0.1;
    p.optimizer.rate.warmup_iters = one_of({0, 500});
    p.seed = static_cast<std::uint64_t>(one_of({1, 77}));
    return p;
  }

  // One more word than most jobs have; which it is, is the seed's.
  Plan with_word(unsigned seed) {
    Plan p = plan();
    p.dtype = Dtype::bf16;
    p.dp = 4;
    p.zero = std::max(p.zero, 1);
    switch (seed % kWords) {
      case 0:
        p.fp8 = one_of(
            {Fp8Recipe::delayed, Fp8Recipe::tensorwise, Fp8Recipe::blockwise, Fp8Recipe::mxfp8});
        p.fp8_parameters = one_of({0, 1}) == 1;
        break;
      case 1:
        p.zero_shards = 2;
        break;
      case 2:
        p.offload_optimizer = one_of({0.25, 1.0});
        break;
      case 3:
        p.offload_activations = one_of({0.125, 0.25});
        break;
      case 4:
        p.cuda_graphs = parse_cuda_graphs(one_of({"step", "blocks", "attn", "attn+mlp"})).value();
        break;
      case 5:
        p.optimizer.kind = OptimizerKind::muon;
        p.optimizer.momentum = 0.9;
        break;
      case 6:
        p.recompute = {.mode = RecomputeMode::selective,
                       .modules = one_of({BlockModule::mlp, BlockModule::layernorm})};
        break;
      default:
        p.lora = {8, parse_products(one_of({"linear_qkv", "linear_proj+linear_fc2"})).value(), 0};
    }
    return p;
  }

 private:
  static constexpr unsigned kWords = 8;
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
  }
  std::mt19937 random_;
};

using Written = ExportedJob (*)(const ResolvedPlan&, const ExportOptions&);
using Read = Job (*)(const std::string& text, const std::string& file, const JobOptions& options);

struct Tool {
  Written written;
  Read read;
  const char* file;
  bool whole = true;  // its file says all; else degrees, boundaries and attention are code's
};

// The plan that a job's file is read as. What code or a schedule's file beside it says is the
// plan's.
Plan read_back(const Tool& tool, const ExportedJob& job, const ResolvedPlan& plan) {
  const Plan& p = plan.plan;
  const int devices = tool.whole ? p.devices() : p.pp * p.dp;
  Plan again =
      tool.read(job.files.front().text, tool.file, {.gpus = devices, .model = &plan.model}).plan;
  if (again.schedule.ends_with(".csv")) again.schedule = p.schedule;
  if (tool.whole) return again;
  again.boundaries = p.boundaries;
  again.attention = p.attention;
  if (p.dp == 1) again.zero = p.zero;  // among devices of cp, of which its file knows nothing
  return again;
}

// Exports 200 plans; those that are written, as many as are said at least, read back as themselves,
// but for what was said.
void expect_round_trip(const Tool& tool, int least, Plan (*drawn)(unsigned seed)) {
  const Model model = llama_like(8);
  int carried = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const ResolvedPlan plan = loaded(drawn(seed), model);
    ExportedJob job;
    try {
      job = tool.written(plan, {.allowed = {.other_schedule = true}});
    } catch (const InputError& refused) {
      EXPECT_NE(std::string(refused.what()).find("(row "), std::string::npos) << refused.what();
      continue;
    }
    ++carried;
    std::vector<Remark> remarks = job.not_carried;
    const std::size_t said = remarks.size();
    Plan again;
    try {
      again = read_back(tool, job, plan);
    } catch (const InputError& refused) {
      ADD_FAILURE() << "seed " << seed << " is not read back: " << refused.what() << "\n"
                    << job.files.front().text;
      continue;
    }
    remark_differences(again, plan.plan, remarks);
    for (std::size_t i = said; i < remarks.size(); ++i) {
      ADD_FAILURE() << "seed " << seed << ": " << remarks[i].name << " in silence\n"
                    << plan_json(plan.plan).dump() << "\n"
                    << plan_json(again).dump();
    }
  }
  EXPECT_GE(carried, least);
}

constexpr Tool kMegatron{&export_megatron, &read_megatron_job, "megatron.sh"};
constexpr Tool kRegistry{&export_torchtitan_registry, &read_torchtitan_job, "config_registry.py"};
constexpr Tool kToml{&export_torchtitan_toml, &read_torchtitan_job, "train.toml"};
constexpr Tool kDeepSpeed{&export_deepspeed, &read_deepspeed_job, "ds_config.json", false};

Plan usual(unsigned seed) { return Draw(seed).plan(); }
TEST(RoundTrip, Megatron) { expect_round_trip(kMegatron, 100, &usual); }
TEST(RoundTrip, TorchtitanRegistry) { expect_round_trip(kRegistry, 100, &usual); }
TEST(RoundTrip, TorchtitanToml) { expect_round_trip(kToml, 100, &usual); }
// It divides no sequence, as half of the plans do.
TEST(RoundTrip, DeepSpeed) { expect_round_trip(kDeepSpeed, 60, &usual); }

// Megatron has seven of the eight words, but for the rows of its table; torchtitan four,
// DeepSpeed two: what they have not is refused by a row.
Plan unusual(unsigned seed) { return Draw(seed).with_word(seed); }
TEST(RoundTrip, WordsOfMegatron) { expect_round_trip(kMegatron, 80, &unusual); }
TEST(RoundTrip, WordsOfTorchtitansRegistry) { expect_round_trip(kRegistry, 20, &unusual); }
TEST(RoundTrip, WordsOfTorchtitansToml) { expect_round_trip(kToml, 20, &unusual); }
TEST(RoundTrip, WordsOfDeepSpeed) { expect_round_trip(kDeepSpeed, 5, &unusual); }

}  // namespace
}  // namespace weir::round_trip_test

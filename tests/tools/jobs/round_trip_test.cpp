// plan -> export -> plan --from: what reads back is the plan, but for what the export says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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

 private:
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

// Exports 200 plans; those that are written read back as themselves, but for what was said.
void expect_round_trip(const Tool& tool) {
  const Model model = llama_like(8);
  int carried = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const ResolvedPlan plan = loaded(Draw(seed).plan(), model);
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
  EXPECT_GE(carried, 100);
}

TEST(RoundTrip, Megatron) {
  expect_round_trip({&export_megatron, &read_megatron_job, "megatron.sh"});
}
TEST(RoundTrip, TorchtitanRegistry) {
  expect_round_trip({&export_torchtitan_registry, &read_torchtitan_job, "config_registry.py"});
}
TEST(RoundTrip, TorchtitanToml) {
  expect_round_trip({&export_torchtitan_toml, &read_torchtitan_job, "train.toml"});
}
TEST(RoundTrip, DeepSpeed) {
  expect_round_trip({&export_deepspeed, &read_deepspeed_job, "ds_config.json", false});
}

}  // namespace
}  // namespace weir::round_trip_test

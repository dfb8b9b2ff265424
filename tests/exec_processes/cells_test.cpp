// Convolutional networks with batch norms and skips, one rank a process: the bits of one rank a
// thread, over schedules, partitions and re-materialisation, and a run that goes on from a
// checkpoint on other stages.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "tests/exec/tiny_cnn.hpp"
#include "tests/exec_processes/started.hpp"

namespace weir {
namespace {

// `layers` cut into stages as even as they go, each boundary `shift` layers further back.
std::vector<int> cut_evenly(int layers, int stages, int shift = 0) {
  std::vector<int> boundaries;
  for (int stage = 1; stage < stages; ++stage)
    boundaries.push_back(stage * layers / stages - (stage * layers / stages > stage ? shift : 0));
  return boundaries;
}

struct Network {
  const char* name;
  TinyConfig config;
  int layers;
};
// More processes than cores wait for each other with their eyes open: only the small ones then.
std::vector<Network> networks(int count) {
  std::vector<Network> all{{"resnet", tiny_resnet(), 6}, {"unet", tiny_unet(), 6}};
  if (count <= 2) all.push_back({"amoebanet", tiny_amoebanet(), 10});
  return all;
}

struct CellCase {
  const char* schedule;
  int vpp;
  const char* recompute;
};

RunOptions two_steps() {
  RunOptions options;
  options.steps = 2;
  options.warmup_steps = 0;
  return options;
}

TEST(CellProcesses, ParametersAreBitwiseThoseOfOneDevice) {
  const int k = processes().count();
  for (const Network& network : networks(k)) {
    const TinyModel model(network.config);
    const bool leads = processes().index() == 0;
    const Plan alone = model.plan({}, 4, "gpipe");
    const RunResult expected =
        leads ? run(model.load(alone), two_steps(), cpu_only()) : RunResult{};
    for (const CellCase& c :
         {CellCase{"gpipe", 1, "0,2,4"}, CellCase{"1f1b", 1, "stage"}, CellCase{"zb-h1", 1, "full"},
          CellCase{"interleaved-1f1b", 2, "stage except-last"}}) {
      if (k * c.vpp > network.layers || (k == 1 && c.vpp > 1)) continue;
      SCOPED_TRACE(fmt::format("{} {} {}", network.name, c.schedule, c.recompute));
      Plan plan = model.plan(cut_evenly(network.layers, k * c.vpp), 4, c.schedule);
      plan.pp = k;
      plan.vpp = c.vpp;
      plan.slots = c.vpp > 1 ? 0 : 2;
      plan.recompute = mode(c.recompute);
      const RunResult here = run_here(model.load(plan), two_steps());
      if (!leads) continue;
      EXPECT_EQ(here.parameters_sha256, expected.parameters_sha256);
      ASSERT_EQ(here.steps.size(), expected.steps.size());
      for (std::size_t s = 0; s < here.steps.size(); ++s)
        EXPECT_EQ(here.steps[s].loss, expected.steps[s].loss);
    }
  }
}

// Of three processes and more a skip goes past one: [e0 e1][bottleneck d1][d0 classes], and with
// four [e0][e1 bottleneck][d1][d0 classes].
TEST(CellProcesses, SkipsGoDirectly) {
  const int k = processes().count();
  const TinyModel model(tiny_unet());
  const bool leads = processes().index() == 0;
  const RunResult expected =
      leads ? run(model.load(model.plan({}, 4, "gpipe")), two_steps(), cpu_only()) : RunResult{};
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    Plan plan = model.plan(cut_evenly(6, k), 4, schedule);
    plan.skips = SkipTransport::direct;
    plan.recompute = mode("stage");
    const ResolvedPlan loaded = model.load(plan);
    EXPECT_EQ(loaded.lowering.skips.size(), k > 2 ? 1U : 0U);
    const RunResult here = run_here(loaded, two_steps());
    if (!leads) continue;
    EXPECT_EQ(here.parameters_sha256, expected.parameters_sha256) << schedule;
    EXPECT_EQ(here.steps.back().loss, expected.steps.back().loss);
  }
}

// Two steps by processes, and two more by processes on stages that begin elsewhere, are four of one
// device. The folder's name must be the same in every process.
TEST(CellProcesses, ResumeOnOtherStages) {
  const int k = processes().count();
  const TinyModel model(tiny_resnet());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("weir-cell-processes-{}", ::getppid());
  RunOptions options = two_steps();
  options.output = folder;
  options.checkpoint_every = 2;
  static_cast<void>(run_here(model.load(model.plan(cut_evenly(6, k), 4)), options));
  options.checkpoint_every = 0;
  options.resume = folder;
  const Plan moved = model.plan(cut_evenly(6, k, 1), 4, "gpipe");
  const RunResult resumed = run_here(model.load(moved), options);
  if (processes().index() != 0) return;
  std::filesystem::remove_all(folder);
  EXPECT_EQ(resumed.parameters_sha256, hash_of(model, model.plan({}, 4), 4));
}

}  // namespace
}  // namespace weir

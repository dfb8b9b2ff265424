// The way of a command, from what was read to what is written, and back.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/round_trips.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <unordered_set>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/jobs/job/export.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"
#include "tools/jobs/torchtitan/import.hpp"
#include "traces/chrome_json.hpp"
#include "traces/perfetto.hpp"

namespace weir::fuzz {
namespace {

constexpr std::int64_t kMostUnits = 256;  // stages x micro-batches
constexpr std::size_t kMostLayersMade = 64;

// Gone with the process, except where it is killed.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("weir-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

const std::filesystem::path& folder() {
  static const Folder own;
  return own.path();
}

void schedule_and_back(const Schedule& schedule) {
  const std::string csv = to_csv(schedule);
  require(to_csv(parse_schedule_csv(csv, "again.csv")) == csv, "a schedule's CSV");
}

void plan_and_back(Plan plan) {
  plan.model_path = "model.json";
  plan.model_sha256 = std::string(64, '0');
  require(parse_plan(to_json(plan), "again.json") == plan, "a plan's JSON");
}

void trace_and_back(const Trace& trace) {
  require(parse_chrome_json(to_chrome_json(trace), "again.json") == trace, "a trace's JSON");
  const std::array<const Trace*, 1> only{&trace};
  require(!to_perfetto(only).empty(), "a trace for Perfetto");
}

// A script that Weir wrote is one that Weir can read, or refuses by name.
void exports_and_back(const ResolvedPlan& resolved) {
  const auto each = [&resolved](auto exporter, auto reader) {
    try {
      const ExportedJob job = exporter(resolved, ExportOptions{});
      for (const ExportedFile& file : job.files) reader(file);
    } catch (const InputError&) {
    }
  };
  const auto unread = [](const ExportedFile&) {};
  each(export_megatron, [](const ExportedFile& file) {
    if (file.name.ends_with(".sh")) {
      JobOptions options;
      options.vocabulary = 1024;
      static_cast<void>(read_megatron_job(file.text, file.name, options));
    }
  });
  each(export_torchtitan_toml, [](const ExportedFile& file) {
    if (file.name.ends_with(".toml"))
      static_cast<void>(read_torchtitan_job(file.text, file.name, JobOptions{}));
  });
  each(export_torchtitan_registry, [](const ExportedFile& file) {
    if (file.name.ends_with(".py"))
      static_cast<void>(read_torchtitan_job(file.text, file.name, JobOptions{}));
  });
  each(export_torch, unread);
  each(export_deepspeed, unread);
}

// A job that goes out as it came in is the same job, whichever of the tools it is one of.
void own_job_and_back(ResolvedPlan resolved) {
  SourceJob& own = resolved.plan.job;
  for (const char* tool : {"megatron", "torchtitan", "deepspeed"}) {
    own.tool = tool;
    try {
      if (own.tool == "megatron") {
        const auto patch = patch_own_megatron_job(resolved);
        require(patch && patch->changes.empty(), "an unchanged job's changes");
        std::vector<std::string> lines = own.lines;
        std::ranges::sort(lines);
        std::vector<std::string> differing;
        std::ranges::set_symmetric_difference(lines, patch->lines, std::back_inserter(differing));
        require(differing.empty(), "an unchanged job's arguments (" +
                                       fmt::format("{}", fmt::join(differing, " | ")) + ")");
      } else if (own.tool == "torchtitan") {
        const ExportedJob job = export_torchtitan_toml(resolved, {});
        require(!job.whole_job || job.files.front().text == job_text(own.lines),
                "an unchanged job's TOML");
      } else {
        const Json json = parse_json(job_text(own.lines), "ds.json");
        require(parse_json(export_deepspeed(resolved, {}).files.front().text, "again.json") == json,
                "an unchanged job's JSON");
      }
    } catch (const InputError&) {
      // Of another tool, or of a model or a schedule that has no words there.
    }
  }
}

}  // namespace

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what + " is not what it was");
}

std::filesystem::path as_file(const std::string& name, const std::string& bytes) {
  std::filesystem::path file = folder() / name;
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

const Plan& tiny_plan() {
  static const Plan plan = [] {
    const std::string model =
        R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,)"
        R"( "n_positions": 8})";
    as_file("tiny.json", model);
    Plan made;
    made.model_path = "tiny.json";
    made.model_sha256 = sha256_hex(model);
    made.seq_length = 8;
    made.pp = 2;
    made.microbatches = 4;
    made.boundaries = {2};
    made.schedule = "1f1b";
    return made;
  }();
  return plan;
}

const Cluster& known_cluster() {
  static const Cluster cluster =
      load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-a100.json");
  return cluster;
}

bool is_small(const Plan& plan) {
  return std::int64_t{plan.stages()} * plan.microbatches <= kMostUnits;
}

namespace {

void forecast_and_back(const ResolvedPlan& resolved, const Cluster& cluster) {
  schedule_and_back(resolved.schedule);
  const Plan& plan = resolved.plan;
  const Costs costs =
      builtin_costs(resolved.model, plan.seq_length, plan.dtype, cluster, {plan.split()});
  trace_and_back(forecast(resolved, costs, cluster).trace);
}

// Whether this process has not met the text before.
bool is_new(const std::string& text) {
  static std::unordered_set<std::string> met;
  return met.insert(sha256_hex(text)).second;
}

}  // namespace

void carry_on(const ResolvedPlan& resolved, const Cluster& cluster) {
  plan_and_back(resolved.plan);
  forecast_and_back(resolved, cluster);
  exports_and_back(resolved);
}

void carry_on(const Job& job) {
  if (!is_small(job.plan) || job.model.layers.size() > kMostLayersMade) return;
  const std::string model = to_layer_list(job.model);
  Plan plan = job.plan;
  plan.model_path = "model.json";
  plan.model_sha256 = sha256_hex(model);
  plan.job = {.tool = "a tool", .devices = plan.devices(), .lines = job.lines};
  // Most changes of a script change neither the plan that is read from it nor the lines that are
  // kept, and what follows depends on these alone, unless its schedule is a file's.
  const bool of_file = plan.schedule.ends_with(".csv");
  if (!of_file && !is_new(to_json(plan))) return;
  as_file("model.json", model);
  ResolvedPlan resolved = resolve(plan, folder());
  plan_and_back(plan);
  Plan alone = plan;
  alone.job = {};
  if (is_new(to_json(alone) + to_csv(resolved.schedule)))
    forecast_and_back(resolved, known_cluster());
  if (of_file && !is_new(to_json(plan) + to_csv(resolved.schedule))) return;
  exports_and_back(resolved);
  if (!job.lines.empty()) own_job_and_back(std::move(resolved));
}

void carry_on_model(const std::filesystem::path& file) {
  const Model model = load_model(file);
  if (model.layers.size() < 2 || model.layers.size() > kMostLayersMade) return;
  Plan plan = tiny_plan();
  plan.model_path = file.filename().string();
  plan.model_sha256 = sha256_hex(read_text_file(file));
  plan.boundaries = {1};
  plan.seq_length = std::min(model.seq_length, std::max<std::int64_t>(model.max_positions, 16));
  carry_on(resolve(plan, file.parent_path()), known_cluster());
}

}  // namespace weir::fuzz

// The table of targets.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "costmodel/fit/builtin_interval.hpp"
#include "costmodel/links/gpu_topology.hpp"
#include "costmodel/links/nccl_tests.hpp"
#include "costmodel/links/nccl_tests_json.hpp"
#include "costmodel/table/costs.hpp"
#include "costmodel/table/given_times.hpp"
#include "exec/weights/safetensors.hpp"
#include "exec/weights/weight_files.hpp"
#include "plan/job/stack.hpp"
#include "plan/layout/exchanges.hpp"
#include "plan/layout/read.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/quote.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/fuzz/programs.hpp"
#include "tests/fuzz/round_trips.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/layout/layout.hpp"
#include "tools/jobs/torchtitan/import.hpp"
#include "traces/chrome_json.hpp"
#include "traces/job_log.hpp"
#include "traces/kineto/events_json.hpp"
#include "traces/kineto/kineto.hpp"

namespace weir::fuzz {
namespace {

constexpr const char* kFile = "input";

std::filesystem::path folder_of_tiny() {
  static_cast<void>(tiny_plan());
  return as_file("input", "").parent_path();
}
const ResolvedPlan& tiny() {
  static const ResolvedPlan resolved = resolve(tiny_plan(), folder_of_tiny());
  return resolved;
}

// A text comes from a file, and texts that are not UTF-8 are refused there.
std::string utf8(const std::string& bytes) {
  if (utf8_prefix(bytes) != bytes.size()) throw InputError(kFile, "", "is not UTF-8");
  return bytes;
}

void plan(const std::string& bytes) {
  Plan read = parse_plan(utf8(bytes), kFile);
  require(parse_plan(to_json(read), kFile) == read, "a plan");
  if (!is_small(read)) return;
  // Another model's plan is refused by its hash, which no fuzzer guesses.
  read.model_path = tiny_plan().model_path;
  read.model_sha256 = tiny_plan().model_sha256;
  carry_on(resolve(read, folder_of_tiny()), known_cluster());
}

// A schedule of timed layers, one a stage.
void schedule(const std::string& bytes) {
  Schedule read = parse_schedule_csv(utf8(bytes), kFile);
  // One that is refused is not written: a B and a W without its I would read as the old dialect.
  if (validate(read)) return;
  const std::string csv = to_csv(read);
  require(to_csv(parse_schedule_csv(csv, kFile)) == csv, "a schedule");
  const ScheduleShape& shape = read.shape;
  if (std::int64_t{shape.total_stages()} * shape.units() > 256) return;
  Job job;
  const TimedShape layer{.forward = Seconds(1e-3),
                         .backward_input = Seconds(1e-3),
                         .backward_weight = Seconds(1e-3),
                         .parameters = 4,
                         .activation = Bytes(64),
                         .boundary = Bytes(64)};
  for (int s = 0; s < shape.stages; ++s) job.model.layers.push_back({"layer", layer, "timed"});
  job.model.family = "layers";
  job.plan.pp = shape.ranks;
  job.plan.vpp = shape.stages / std::max(shape.ranks, 1);
  job.plan.microbatches = shape.microbatches;
  for (int s = 1; s < shape.stages; ++s) job.plan.boundaries.push_back(s);
  job.plan.schedule = "input.csv";
  as_file("input.csv", bytes);
  carry_on(job);
}

template <const char* kExtension>
void model(const std::string& bytes) {
  carry_on_model(as_file(std::string("input") + kExtension, bytes));
}
constexpr char kJson[] = ".json", kCsv[] = ".csv", kTxt[] = ".txt";

void cluster(const std::string& bytes) {
  const Cluster read = parse_cluster(utf8(bytes), kFile);
  const Cluster again = parse_cluster(to_json(read), kFile);
  for (int kind = 0; kind < read.kinds(); ++kind)
    require(again.kind(kind).price_per_gpu_hour == read.kind(kind).price_per_gpu_hour, "a price");
  carry_on(tiny(), read);
}

void stack(const std::string& bytes) {
  Cluster cluster = known_cluster();
  cluster.stack = parse_stack(utf8(bytes), kFile);
  carry_on(tiny(), cluster);
}

void costs(const std::string& bytes) {
  const Costs read = load_costs(as_file("costs.json", bytes));
  const std::string text = to_json(read).dump();
  require(to_json(load_costs(as_file("costs.json", text))).dump() == text, "costs");
  static_cast<void>(forecast(tiny(), read, known_cluster()));
}

using ReadJob = Job (*)(const std::string&, const std::string&, const JobOptions&);

template <ReadJob kRead>
Job read_job(const std::string& bytes) {
  static const Model named = load_model(WEIR_SOURCE_DIR "/tools/examples/models/gpt2.json");
  JobOptions options;
  options.model = &named;
  options.vocabulary = 1000;
  // Of a file of several, the one that the seeds and the grammars end with.
  for (const char* config : {"llama3_8b", "small_pretrain_config"}) {
    if (bytes.find(std::string("def ") + config) != std::string::npos) options.config = config;
  }
  return kRead(utf8(bytes), kFile, options);
}

template <ReadJob kRead>
void job(const std::string& bytes) {
  carry_on(read_job<kRead>(bytes));
}

template <ReadJob kRead>
constexpr Grammar grammar(std::string (*program)(std::uint64_t seed)) {
  return {program, [](const std::string& bytes) { static_cast<void>(read_job<kRead>(bytes)); }};
}

void topology(const std::string& bytes) {
  const GpuTopology read = read_gpu_topology(utf8(bytes), kFile);
  Cluster cluster = known_cluster();
  static_cast<void>(apply_topology(read, kFile, cluster));
  carry_on(tiny(), cluster);
}

void trace(const std::string& bytes) {
  const Trace read = parse_chrome_json(utf8(bytes), kFile);
  require(parse_chrome_json(to_chrome_json(read), kFile) == read, "a trace");
}

void kineto(const std::string& bytes) {
  const std::array files{as_file("rank0.json", bytes)};
  static_cast<void>(read_kineto_identity(files.front()));
  static_cast<void>(read_kineto_events(files.front()));
  static const ResolvedPlan one = [] {
    Plan plan = tiny_plan();
    plan.pp = 1;
    plan.boundaries = {};
    return resolve(plan, folder_of_tiny());
  }();
  static_cast<void>(read_kineto(one.program, files));
}

void safetensors(const std::string& bytes) {
  const SafetensorsFile read(as_file("input.safetensors", bytes));
  for (const auto& [name, tensor] : read.tensors()) static_cast<void>(to_floats(tensor, name));
}

// Words of options and of files.
void words(const std::string& bytes) {
  if (const auto read = parse_action(bytes))
    require(parse_action(to_string(*read)) == read, "an action");
  static_cast<void>(parse_bytes(bytes));
  static_cast<void>(parse_duration(bytes));
  static_cast<void>(parse_rate(bytes));
  const std::string shown = shortened(printable(bytes));
  require(utf8_prefix(shown) == shown.size(), "a message");
  static_cast<void>(shell_quoted(bytes));
}

constexpr Target kTargets[] = {
    {"plan", "", plan},
    {"schedule", "", schedule},
    {"model", "models", model<kJson>},
    {"hugging-face", "models", model<kJson>},
    {"layers-csv", "", model<kCsv>},
    {"pipedream", "", model<kTxt>},
    {"cluster", "clusters", cluster},
    {"stack", "stacks", stack},
    {"costs", "", costs},
    {"times", "",
     [](const std::string& bytes) {
       static_cast<void>(parse_times(utf8(bytes), kFile, tiny().schedule.shape));
     }},
    {"layout", "layouts",
     [](const std::string& bytes) {
       const layout::LayoutFile read = layout::parse_layouts(utf8(bytes), kFile);
       for (const layout::NetworkLayout& one : read.network_layouts) {
         for (std::size_t l = 0; l < read.network->layers.size(); ++l)
           static_cast<void>(layout::layer_share(*read.network, one, l));
       }
     }},
    {"megatron", "", job<read_megatron_job>, grammar<read_megatron_job>(shell_program)},
    {"megatron-layout", "",
     [](const std::string& bytes) {
       const MegatronLayout read = parse_layout(utf8(bytes), kFile, "layout");
       const MegatronLayout again = parse_layout(to_layout(read), kFile, "layout");
       require(again.blocks == read.blocks && again.predictions == read.predictions &&
                   (read.predictions == 0 || again.predicting == read.predicting),
               "a layout");
     }},
    {"torchtitan", "", job<read_torchtitan_job>, grammar<read_torchtitan_job>(torchtitan_program)},
    {"neox", "", job<read_neox_job>},
    {"nemo", "", job<read_nemo_job>, grammar<read_nemo_job>(bridge_program)},
    {"deepspeed", "", job<read_deepspeed_job>},
    {"nccl-tests", "",
     [](const std::string& bytes) { static_cast<void>(read_nccl_tests(utf8(bytes), kFile)); }},
    {"nccl-tests-json", "",
     [](const std::string& bytes) { static_cast<void>(read_nccl_tests_json(utf8(bytes), kFile)); }},
    {"topology", "", topology},
    {"trace", "", trace},
    {"kineto", "", kineto},
    {"job-log", "",
     [](const std::string& bytes) {
       static_cast<void>(is_job_log(utf8(bytes)));
       static_cast<void>(summary(read_job_log(bytes, kFile)));
     }},
    {"safetensors", "", safetensors},
    {"weight-index", "",
     [](const std::string& bytes) {
       static_cast<void>(WeightFiles(as_file("input.safetensors.index.json", bytes)));
     }},
    {"group-errors", "",
     [](const std::string& bytes) { static_cast<void>(parse_group_errors(utf8(bytes), kFile)); }},
    {"words", "", words},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(kTargets, name, &Target::name);
  return found == std::end(kTargets) ? nullptr : found;
}

Outcome run(void (*of)(const std::string& bytes), const std::string& bytes) {
  try {
    of(bytes);
    return Outcome::accepted;
  } catch (const InputError&) {
  } catch (const UsageError&) {
  } catch (const NoFeasiblePlan&) {
  } catch (const std::range_error&) {  // a time beyond what nanoseconds hold
  }
  return Outcome::refused;
}

}  // namespace weir::fuzz

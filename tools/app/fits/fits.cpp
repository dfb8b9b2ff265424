// Forecasts a job's memory, and tries the changes that make it less.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/fits/fits.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <variant>

#include "costmodel/table/device_kind.hpp"
#include "plan/model/readers/foreign_job.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast_json.hpp"
#include "sim/forecast/training_cost.hpp"
#include "tools/app/compare/explain.hpp"
#include "tools/app/jobs/export.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/unnamed_software.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/training_tokens.hpp"

namespace weir::app {
namespace {

constexpr std::size_t kMostChanges = 3;
constexpr std::size_t kFirstOfPairs = 4;  // single changes that a second one is added to
constexpr double kWorthTheRoom = 0.99;    // of the step: what a faster plan must reach

// A folder for the plan of a job, which is only looked at.
class PassingFolder {
 public:
  PassingFolder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("weir-fits-{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  ~PassingFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Whose job the file looks like, by its importer's word; empty: nobody's, so a plan's.
std::string reader_of(const PlanSource& job) {
  const auto* file = std::get_if<std::filesystem::path>(&job);
  // Standard input is read once, by who knows what it is.
  if (file == nullptr || !std::filesystem::is_regular_file(*file)) return {};
  return std::string(tool_of_text(read_text_file(*file)).reader);
}

PlacedPlan load_job(const FitsRequest& r, const Session& session) {
  const auto* file = std::get_if<std::filesystem::path>(&r.job);
  if (!r.from.empty() && file == nullptr)
    throw UsageError("--from is for a job's file, not for a plan");
  const std::string from = r.from.empty() ? reader_of(r.job) : r.from;
  if (from.empty() && r.model) throw UsageError("--model is for a job that names its model");
  if (from.empty()) return load(r.job, session);
  if (!is_job_format(from))
    throw UsageError(
        fmt::format("--from {}: expected megatron, torchtitan, neox, deepspeed or nemo", from));
  const PassingFolder folder;
  const ImportRequest import{.from = from, .model = r.model, .gpus = r.gpus};
  const ImportedJob job{.file = *file, .output = folder.path() / "job.json", .cluster = r.cluster};
  return load(import_job(import, job, session).plan, session);
}

// By the share of its memory that a rank takes: where one's expected peak is above its limit by
// that, else by what it takes at most, which decides whether the job surely fits.
std::size_t fullest_rank(const Forecast& f) {
  bool above = false;
  for (std::size_t r = 0; r < f.memory.size(); ++r)
    above = above || f.memory[r].peak > *f.memory_limit_of(r);
  const auto share = [&](std::size_t r) {
    const Bytes held = above ? f.memory[r].peak : f.memory[r].upper;
    return static_cast<double>(held.count()) / static_cast<double>(f.memory_limit_of(r)->count());
  };
  std::size_t fullest = 0;
  for (std::size_t r = 1; r < f.memory.size(); ++r)
    if (share(r) > share(fullest)) fullest = r;
  return fullest;
}

class Fitting {
 public:
  Fitting(const FitsRequest& request, const ResolvedPlan& job, const MachineChoice& choice,
          Cluster cluster)
      : request_(request),
        job_(job),
        cluster_(std::move(cluster)),
        software_(abilities_for(abilities(choice, cluster_), job.model)) {}

  // As `simulate` forecasts it.
  [[nodiscard]] Forecast forecast_of(const ResolvedPlan& plan, const Cluster& on) const {
    Forecast f = forecast(plan, costs_of_changes(request_.costs, plan, on), on).forecast;
    widen_for_unnamed(f, plan, on);
    f.training_tokens = request_.train_tokens;
    if (!request_.memory_limit.empty()) {
      f.memory_limit = parse_memory(request_.memory_limit, "--memory-limit");
    } else {
      f.memory_limit = on.largest_memory();
    }
    return f;
  }
  void set_base(const Forecast& base) { step_ = base.step_time; }

  // Every single change of `from` that can be, on `times` its devices, of the same mini-batch.
  [[nodiscard]] std::vector<FittingChange> tried(const ResolvedPlan& from,
                                                 const std::string& behind, int times = 1) const {
    Cluster on = cluster_;
    // As many nodes as those devices need.
    if (times > 1) static_cast<void>(take_devices(on, from.plan.devices() * times));
    std::vector<FittingChange> found;
    for (Change& change : possible(from, on, times)) {
      const ResolvedPlan to = changed(from, change.plan);
      Forecast f = forecast_of(to, on);
      const double ratio = f.step_time / step_;
      // Said in the job's own arguments, so that the user can change them.
      found.push_back({behind + change.choice + ": " + change.to, std::move(change.plan),
                       std::move(f), ratio, edits_between(job_.plan, to)});
    }
    return found;
  }

  // Those that surely fit, fewest arguments first and of these the fastest.
  [[nodiscard]] std::vector<FittingChange> sure(std::vector<FittingChange> all) const {
    std::erase_if(all, [](const FittingChange& c) { return c.forecast.fits() != Fits::yes; });
    std::ranges::stable_sort(all, [](const FittingChange& a, const FittingChange& b) {
      return std::tuple(count_of(a.edits).all(), a.ratio) <
             std::tuple(count_of(b.edits).all(), b.ratio);
    });
    std::vector<FittingChange> best;
    for (FittingChange& one : all) {
      const bool known = std::ranges::find(best, one.plan, &FittingChange::plan) != best.end();
      if (!known && best.size() < kMostChanges) best.push_back(std::move(one));
    }
    return best;
  }

 private:
  // Degrees of which one is larger, the others as they are but for the replicas that make room.
  [[nodiscard]] static std::vector<Plan> other_degrees(const Plan& from, int times) {
    std::vector<Plan> all;
    for (const auto degree : {&Plan::tp, &Plan::pp, &Plan::cp}) {
      Plan to = from;
      // On the same devices a degree doubles and replicas halve.
      to.*degree *= times > 1 ? times : 2;
      if (times == 1) {
        if (from.dp % 2 != 0) continue;
        to.dp /= 2;
      }
      // As tensor parallelism is used today: what it leaves whole is divided by tokens.
      if (to.tp > 1 && from.tp == 1) to.sequence_parallel = true;
      all.push_back(std::move(to));
    }
    if (times > 1) {
      all.push_back(from);
      all.back().dp *= times;
    }
    return all;
  }

  [[nodiscard]] std::vector<Change> possible(const ResolvedPlan& from, const Cluster& on,
                                             int times) const {
    std::vector<Change> all;
    if (times == 1) {
      Costs costs = costs_of_changes(request_.costs, from, on);
      all = all_changes(request_.costs, from, on, costs);
    }
    std::vector<Plan> others = other_degrees(from.plan, times);
    if (times == 1 && from.plan.micro_batch_size > 1) {
      others.push_back(from.plan);
      others.back().micro_batch_size = 1;
    }
    for (const Plan& other : others) {
      if (cannot_divide(from.model, other)) continue;
      const Costs costs = costs_of_changes(request_.costs, from, on, other);
      for (Change& change : changes_towards(from, other, costs, on))
        if (change.choice == "degrees" || change.choice == "micro-batches")
          all.push_back(std::move(change));
    }
    const auto batch = job_.plan.global_batch_size();
    // Another mini-batch, another cluster or another tool's feature is no change of this job.
    std::erase_if(all, [&](const Change& c) {
      return c.cluster || !c.refused.empty() || c.plan.global_batch_size() != batch ||
             beyond(software_, c.plan).has_value() || c.plan.devices() > on.devices();
    });
    return all;
  }

  const FitsRequest& request_;
  const ResolvedPlan& job_;
  Cluster cluster_;
  StackAbilities software_;
  Seconds step_{1};
};

// Two changes: the second of those that come nearest with the first.
std::vector<FittingChange> pairs(const Fitting& fitting, const ResolvedPlan& job,
                                 std::vector<FittingChange> first) {
  std::ranges::stable_sort(first, {},
                           [](const FittingChange& c) { return c.forecast.peak_memory_upper(); });
  std::vector<FittingChange> all;
  for (std::size_t i = 0; i < std::min(first.size(), kFirstOfPairs); ++i) {
    auto more = fitting.tried(changed(job, first[i].plan), first[i].what + ", ");
    std::ranges::move(more, std::back_inserter(all));
  }
  return fitting.sure(std::move(all));
}

std::optional<FittingChange> on_more(const Fitting& fitting, const ResolvedPlan& job) {
  for (const int times : {2, 4, 8}) {
    try {
      auto sure = fitting.sure(fitting.tried(job, "", times));
      if (!sure.empty()) return std::move(sure.front());
    } catch (const NoFeasiblePlan&) {
      return std::nullopt;  // the cluster cannot have so many
    }
  }
  return std::nullopt;
}

// Without a cluster the limit is that of some GPU: what the job's software keeps there, and what
// its process and its allocator take as PyTorch's do on an A100, is counted, on a CPU too.
Cluster machine_of(const FitsRequest& r, MachineChoice& choice, const Session& session) {
  const bool own_costs = !std::holds_alternative<std::monostate>(r.costs);
  if (!r.cluster && !r.stack && !own_costs && !choice.job_stack.empty())
    choice.stack = choice.job_stack;
  Cluster cluster = machine(choice, r.gpus, session);
  const bool own = cluster.stack.name.empty() || cluster.stack.name == Stack{}.name;
  if (r.cluster || own || is_gpu(cluster.device)) return cluster;
  const Device gpu = load_gpu("a100");
  cluster.device.allocator = gpu.allocator;
  cluster.device.process_overhead = gpu.process_overhead;
  return cluster;
}

}  // namespace

Fields fields(FitsRequest& r) {
  return {{"job", &r.job, "Plan file, or another tool's job", {.required = true}},
          {"--from", &r.from,
           "Read JOB as a job of megatron, torchtitan, neox, nemo or deepspeed, as plan does "
           "(default: what it looks like)"},
          {"--job-model,--model",
           &r.model,
           "Of a job that only names its model, which the hub's cache has not",
           {.model = true}},
          {"--costs", &r.costs, "Costs file (default: built in)"},
          {"--cluster", &r.cluster, "Cluster file or name, whose devices' memory is the limit"},
          stack_field(r.stack),
          gpus_field(r.gpus),
          any_schedule_field(r.any_schedule),
          {"--memory-limit", &r.memory_limit, "Memory of a device, as \"80 GiB\""},
          train_tokens_field(r.train_tokens)};
}

FitsResult fits(const FitsRequest& r, const Session& session) {
  if (!r.cluster && r.memory_limit.empty())
    throw UsageError("fits: expected --cluster or --memory-limit, to say what memory there is");
  const PlacedPlan placed = load_job(r, session);
  const ResolvedPlan& job = placed.loaded;
  require_tokens(r.train_tokens, job.plan);
  MachineChoice choice{r.cluster, r.stack, r.costs, r.any_schedule, stack_of(job.plan.job)};
  const Cluster cluster = machine_of(r, choice, session);
  require_devices(job.plan, cluster, r.cluster, r.gpus);
  Fitting fitting(r, job, choice, cluster);
  FitsResult result{
      .name = name_of(r.job), .plan = job.plan, .forecast = fitting.forecast_of(job, cluster)};
  const Forecast& f = result.forecast;
  if (f.memory.empty()) throw InputError(result.name, "model", "says nothing of bytes");
  result.fullest = fullest_rank(f);
  fitting.set_base(f);
  std::vector<FittingChange> single = fitting.tried(job, "");
  // It fits: what is left to offer is speed for the room that is left.
  if (f.fits() == Fits::yes) {
    std::erase_if(single, [&job](const FittingChange& c) {
      // Products in another format train otherwise: no use of the room.
      const bool other = c.plan.fp8 != job.plan.fp8;
      return other || c.forecast.fits() != Fits::yes || c.ratio > kWorthTheRoom;
    });
    const auto best = std::ranges::min_element(single, {}, &FittingChange::ratio);
    if (best != single.end()) result.faster = std::move(*best);
    return result;
  }
  result.changes = fitting.sure(single);
  // One change is enough where one does it; pairs come only then.
  if (!result.changes.empty()) return result;
  result.choices = 2;
  result.changes = pairs(fitting, job, std::move(single));
  // Last of all: more devices.
  if (result.changes.empty()) result.larger = on_more(fitting, job);
  return result;
}

namespace {

using FitsJson = nlohmann::ordered_json;

FitsJson change_json(const FittingChange& c) {
  FitsJson arguments = FitsJson::array();
  // Of a job alone: what changes in a plan's file, `plan` says.
  for (const Edit& edit : c.edits.all) {
    if (c.edits.of_job)
      arguments.push_back({{"name", edit.name},
                           {"before", edit.before ? FitsJson(*edit.before) : FitsJson()},
                           {"after", edit.after ? FitsJson(*edit.after) : FitsJson()}});
  }
  return {{"change", c.what},
          {"plan", FitsJson::parse(weir::to_json(c.plan))},
          {"devices", c.plan.devices()},
          {"peak_memory_bytes", c.forecast.peak_memory().count()},
          {"peak_memory_upper_bytes", c.forecast.peak_memory_upper().count()},
          {"step_time_s", c.forecast.step_time.count()},
          {"training_cost", training_cost_json(c.forecast)},
          {"step_time_ratio", c.ratio},
          {"arguments_count", count_of(c.edits).all()},
          {"arguments", arguments},
          {"not_carried", to_json(c.edits.not_carried)}};
}

}  // namespace

FitsJson to_json(const FitsResult& result) {
  const Forecast& f = result.forecast;
  FitsJson json{{"schema", "weir.fits/1"},
                {"fits", to_string(f.fits())},
                {"fits_probability", f.fits_probability()},
                {"stack", f.stack.empty() ? FitsJson() : FitsJson(f.stack)},
                {"step_time_s", f.step_time.count()},
                {"training_cost", training_cost_json(f)},
                {"fullest_rank", result.fullest},
                {"ranks", FitsJson::array()}};
  for (std::size_t r = 0; r < f.memory.size(); ++r) {
    FitsJson kinds = FitsJson::object();
    for (const MemoryKind kind : kMemoryKinds)
      kinds[std::string(to_string(kind))] = f.memory[r].at_peak[kind].count();
    json["ranks"].push_back({{"rank", r},
                             {"peak_memory_bytes", f.memory[r].peak.count()},
                             {"peak_memory_upper_bytes", f.memory[r].upper.count()},
                             {"memory_limit_bytes", f.memory_limit_of(r)->count()},
                             {"memory_bytes", kinds}});
  }
  json["full"] = f.fits() == Fits::yes ? FitsJson() : FitsJson(host_is_full(f) ? "host" : "device");
  json["host"] = f.host ? host_json(*f.host) : FitsJson();
  json["choices"] = result.choices;
  json["changes"] = FitsJson::array();
  for (const FittingChange& c : result.changes) json["changes"].push_back(change_json(c));
  json["faster"] = result.faster ? change_json(*result.faster) : FitsJson();
  json["larger"] = result.larger ? change_json(*result.larger) : FitsJson();
  return json;
}

bool host_is_full(const Forecast& f) { return f.host_fits() > f.devices_fit(); }

void require_success(const FitsResult& result) {
  const Forecast& f = result.forecast;
  if (f.fits() == Fits::yes) return;
  if (host_is_full(f)) {
    throw NoFeasiblePlan(fmt::format(
        "{} {}: a node's host needs {}, {} at most, and has {}", result.name,
        f.fits() == Fits::maybe ? "may not fit" : "does not fit", format_bytes(f.host->held()),
        format_bytes(f.host->band().upper), format_bytes(f.host->memory)));
  }
  throw NoFeasiblePlan(fmt::format(
      "{} {}: rank {} needs {}, {} at most, the limit is {}", result.name,
      f.fits() == Fits::maybe ? "may not fit" : "does not fit", result.fullest,
      format_bytes(f.memory[result.fullest].peak), format_bytes(f.memory[result.fullest].upper),
      format_bytes(*f.memory_limit_of(result.fullest))));
}

}  // namespace weir::app

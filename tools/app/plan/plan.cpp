// Plans by hand: what is asked for checked, balanced and resolved.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "plan/job/direct_skips.hpp"
#include "plan/job/plan_json.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "sim/search/partitions/balance.hpp"
#include "tools/app/jobs/export.hpp"
#include "tools/app/jobs/torch_model.hpp"
#include "tools/app/plan/listed_plan.hpp"
#include "tools/app/plan/plan_choices.hpp"
#include "tools/app/plan/plan_layout.hpp"
#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/shared/memory_need.hpp"
#include "tools/app/shared/parallel_fields.hpp"

namespace weir::app {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kTorch = "torch";  // --from: a module, not a job

// b and M: as given, or what G = b M D leaves of the one that is not; where M D does not divide it,
// micro-batches of b and b - 1. A layout gives b.
void set_samples(const PlanRequest& r, const Session& session, Plan& plan) {
  plan.micro_batch_size = r.micro_batch_size;
  if (!r.global_batch_size) return;
  const int dp = r.parallel.dp.value_or(1);
  const std::int64_t others = std::int64_t{r.microbatches} * dp, all = *r.global_batch_size;
  const bool given = session.given("micro-batch-size") || r.layout;
  const std::int64_t each_round = std::int64_t{r.micro_batch_size} * dp;
  if (given && !session.given("microbatches") && all % each_round == 0) {
    plan.microbatches = static_cast<int>(all / each_round);
    return;
  }
  // b may be left to follow from G; both given must agree.
  const bool open = !given && all >= others;
  const std::int64_t b = open ? ceil_div(all, others) : r.micro_batch_size;
  plan.micro_batch_size = static_cast<int>(b);
  if (b * others == all) return;
  // Uneven: the plan keeps G, and some micro-batches have a sample less.
  if (open) {
    plan.samples = static_cast<int>(all);
    return;
  }
  throw UsageError(fmt::format(
      "--global-batch-size {} contradicts {} {} times --microbatches {}{}", *r.global_batch_size,
      session.given("micro-batch-size") ? "--micro-batch-size" : "--layout's micro-batches of", b,
      r.microbatches, dp > 1 ? fmt::format(" times --dp {}", dp) : ""));
}

// What was asked for, without boundaries and schedule. Every number keeps to what a plan file
// allows.
Plan plan_of(const PlanRequest& r, const Model& model, const Session& session) {
  Plan plan = base_plan(r.common, r.seed, model, session);
  if (r.dynamic_cp > 0) {
    if (!plan.lengths.known()) throw UsageError("--dynamic-cp needs --lengths");
    // What is chosen for whole rows is not for sequences of their own.
    if (r.recompute == kAuto || name_of(r.schedule) == kAuto)
      throw UsageError("--dynamic-cp goes with --recompute and --schedule as they are, not auto");
    plan.lengths.dynamic_cp = r.dynamic_cp;
  }
  plan.pp = r.pp;
  // Where the schedule allows one v only, nobody has to say it.
  plan.vpp = session.given("vpp") ? r.vpp : only_chunks(r.schedule).value_or(r.vpp);
  plan.microbatches = r.microbatches;
  set_samples(r, session, plan);
  plan.allow_reordered = r.allow_reordered;
  if (r.recompute != kAuto) plan.recompute = parse_recompute(r.recompute, r.recompute_microbatches);
  apply(r.parallel, plan);
  if (const auto misfit = cannot_divide(model, plan))
    throw InputError("plan", misfit->key, misfit->reason);
  return parse_plan(weir::to_json(plan), "plan");
}

// What a plan file says of this schedule: a generator's name, or a CSV file; for one that no file
// has yet, the name of a file for it.
std::string word_for(const Schedule& schedule, const Plan& plan) {
  if (schedule.name.ends_with(".csv")) return schedule.name;
  const auto made =
      make_schedule(schedule.name, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  const auto* same = std::get_if<Schedule>(&made);
  if (same != nullptr && *same == schedule) return schedule.name;
  std::string file = schedule.name;  // a function's name, or a program's command line
  std::erase_if(file, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return file + ".csv";
}

// The schedule that was asked for, and what the request leaves to the planner; the model's
// vocabulary is divided where the schedule divides it.
Schedule complete(const PlanRequest& r, Model& model, const Cluster& cluster, Plan& plan,
                  PlanResult& result, const Session& session) {
  say_need_of_schedule(plan.stages(), std::int64_t{plan.microbatches} * r.slices.value_or(1),
                       session);
  const bool rebuild = r.recompute == kAuto, order = name_of(r.schedule) == kAuto;
  if (rebuild && !r.recompute_microbatches.empty())
    throw UsageError("--recompute auto is for all micro-batches: no --recompute-microbatches");
  if (!r.memory_limit.empty() && !rebuild && !order)
    throw UsageError("--memory-limit needs --recompute auto or --schedule auto");
  if (r.recompute == "none" || r.recompute == "never")
    session.refuse({"recompute-microbatches"}, "needs --recompute: none is made again");
  if (!r.boundaries.empty())
    session.refuse({"partition"}, "chooses where stages begin, which --boundaries says");
  // Given boundaries stand; empty ones are filled below.
  plan.boundaries = r.boundaries;
  Schedule schedule;
  const auto take = [&](Schedule taken) {
    schedule = std::move(taken);
    plan.slices = schedule.shape.segments;
    if (r.slices.value_or(plan.slices) != plan.slices)
      throw UsageError(fmt::format("--slices {} contradicts {}, which has {}", *r.slices,
                                   schedule.name, plan.slices));
    plan.schedule = word_for(schedule, plan);
    if (const auto misfit = cannot_divide(model, plan))
      throw InputError("plan", misfit->key, misfit->reason);
    if (schedule.shape.shards() > 0) set_vocabulary(model, schedule.shape.ranks);
    // Two receive slots, or as many as this order needs not to deadlock.
    if (!r.common.slots) plan.slots = fewest_slots(schedule, 2);
  };
  if (!order) {
    take(obtain_schedule(r.schedule,
                         {"", plan.pp, plan.vpp, plan.microbatches, r.slices, r.allow_reordered}));
  }
  if (schedule.shape.shards() > 0 && (rebuild || cluster.kinds() > 1)) {
    throw UsageError(fmt::format("--schedule {}: expected {}", schedule.name,
                                 rebuild ? "--recompute as it is, not auto" : "one kind of nodes"));
  }
  // Everything was given: no costs are needed.
  if (!r.boundaries.empty() && !rebuild && !order) return schedule;
  const Costs costs = load(r.costs, model, plan, cluster);
  PlanChooser chooser{model, costs, cluster, std::nullopt, result.choices};
  if (!r.memory_limit.empty())
    chooser.memory_limit = parse_memory(r.memory_limit, "--memory-limit");
  result.stack = cluster.stack.name;
  // The order is chosen with the partition, since each decides the other.
  if (order) {
    take(chooser.schedule(r.partition, rebuild, plan));
  } else if (r.boundaries.empty() && schedule.shape.shards() > 0) {
    if (r.partition != PlanRequest{}.partition) {
      throw UsageError(
          fmt::format("--partition {}: with --schedule {} stages are balanced by their "
                      "times (or give --boundaries)",
                      r.partition, schedule.name));
    }
    result.choices.emplace_back("boundaries: balanced by times, as beside a divided vocabulary");
    const Model staged = model_of_stages(model, plan);
    plan.boundaries =
        balanced_boundaries(staged, plan, load(r.costs, staged, plan, cluster), cluster);
  } else if (r.boundaries.empty()) {
    plan.boundaries = chooser.boundaries(r.partition, plan, schedule, !rebuild);
  }
  // Last: how much must be rebuilt depends on order and partition.
  if (rebuild) plan.recompute = chooser.recompute(plan, schedule);
  return schedule;
}

// Where stages begin was chosen for skips that are relayed.
void send_skips_directly(const PlanRequest& r, const Model& model, const Schedule& schedule,
                         Plan& plan, PlanResult& result) {
  plan.skips = SkipTransport::direct;
  if (const auto misfit = cannot_go_directly(model, plan, schedule.shape))
    throw InputError("plan", misfit->key, misfit->reason);
  if (!r.common.slots) plan.slots = fewest_slots(schedule, 2, skip_routes(model, plan.boundaries));
  if (r.boundaries.empty() && plan.pp > 1)
    result.choices.emplace_back("boundaries: chosen for skips that are relayed");
}

PlanResult by_hand(PlanRequest r, const Session& session) {
  PlanResult result;
  const MachineChoice choice{.cluster = r.cluster, .stack = r.stack, .costs = r.costs};
  // The devices of a job decide how many nodes its cluster has.
  const Cluster cluster = machine(choice, r.import.gpus, session);
  const bool measured = r.import.from == kTorch;  // the module has its precision
  const auto remark = measured ? std::nullopt : complete_precision(r.common, cluster, session);
  if (remark) session.note(*remark);
  Model model = load_model(r.common);
  if (r.layout)
    take_layout({*r.layout, r.layout_name}, model, session, r.common, r.parallel,
                r.micro_batch_size);
  if (!r.layout && !r.layout_name.empty()) throw UsageError("--layout-name is of --layout");
  Plan plan = plan_of(r, model, session);
  require_devices(plan, cluster, r.cluster, r.import.gpus);
  const bool direct = parse_skip_transport(r.skips) == SkipTransport::direct;
  if (direct && (r.recompute == kAuto || name_of(r.schedule) == kAuto)) {
    throw UsageError(
        "--skips direct: --recompute and --schedule auto count what stages hand on; say them");
  }
  const Schedule schedule = complete(r, model, cluster, plan, result, session);
  if (direct) send_skips_directly(r, model, schedule, plan, result);
  const auto folder = std::filesystem::current_path();
  result.plan = {resolve(plan, folder, schedule), folder,
                 plan.schedule.ends_with(".csv") && plan.schedule != schedule.name};
  // An empty stage, where the stack has none, is refused before anything is written.
  require_stages(result.plan.loaded, cluster.stack);
  const ResolvedPlan& made = result.plan.loaded;
  if (const auto lacking = beyond(abilities_for(abilities(choice, cluster), made.model), made.plan))
    session.note(fmt::format("{}: not in {}", *lacking, cluster.stack.name));
  return result;
}

// What a program printed is kept beside the plan, under the plan's name.
void save(PlacedPlan& plan, const std::filesystem::path& file, const Session& session) {
  const auto folder = std::filesystem::absolute(session.output(file)).parent_path();
  Plan& its = plan.loaded.plan;
  if (plan.schedule_in_memory) {
    const auto csv = std::filesystem::absolute(file).replace_extension("schedule.csv");
    write_file_atomically(session.output(csv), to_csv(plan.loaded.schedule));
    its.schedule = csv.string();
  }
  its = rebased(its, plan.folder, folder);
  save_plan(its, file);
  plan.folder = folder;
  plan.schedule_in_memory = false;
}

// What the user says beside the job.
GivenFields given_beside(const PlanRequest& r, const Session& session) {
  GivenFields given{.seq_length = r.common.seq_length};
  if (session.given("dtype")) given.dtype = dtype_of(r.common);
  if (session.given("micro-batch-size")) given.micro_batch_size = r.micro_batch_size;
  if (session.given("microbatches")) given.microbatches = r.microbatches;
  if (r.global_batch_size) given.global_batch_size = *r.global_batch_size;
  if (session.given("attention")) given.attention = attention_of(r.common);
  given.lengths = lengths_of(r.common);
  given.rows_said = !r.common.rows.empty();
  if (session.given("recompute")) {
    if (r.recompute == kAuto) throw UsageError("--recompute auto is not for a job: say which");
    given.recompute = parse_recompute(r.recompute, r.recompute_microbatches);
  }
  return given;
}

// With --from the file says its plan; these fill what it leaves open, or are beside it.
PlanResult from_job(const PlanRequest& r, const Session& session) {
  constexpr std::array kTogether{"model",
                                 "from",
                                 "job-model",
                                 "gpus",
                                 "dp",
                                 "config",
                                 "slots",
                                 "vocab-size",
                                 "note",
                                 "output",
                                 "seed",
                                 "cluster",
                                 "dtype",
                                 "attention",
                                 "seq-length",
                                 "lengths",
                                 "rows",
                                 "micro-batch-size",
                                 "recompute",
                                 "microbatches",
                                 "global-batch-size",
                                 "recompute-microbatches"};
  for (const std::string& name : session.all_given()) {
    if (std::ranges::find(kTogether, name) == kTogether.end())
      throw UsageError(fmt::format("--{} contradicts --from: the job's file says it", name));
  }
  ImportedJob job{r.common.model, r.output, r.parallel.dp, r.common.slots, r.common.note};
  job.given = given_beside(r, session);
  job.cluster = r.cluster;
  Imported imported = import_job(r.import, job, session);
  PlacedPlan plan = load(imported.plan, session);
  std::string stack = imported.stack;
  return {std::move(plan), true, std::move(stack), {}, std::move(imported)};
}

// One of a sweep's file; its place and where it goes are all that can be said.
PlanResult from_sweep(const PlanRequest& r, const Session& session) {
  constexpr std::array kTogether{"from", "place", "output", "seed"};
  for (const std::string& name : session.all_given()) {
    if (std::ranges::find(kTogether, name) == kTogether.end())
      throw UsageError(fmt::format("--{} contradicts --from: the sweep's file says it", name));
  }
  PlanResult result{.plan = listed_plan(r.import.from, r.place.value_or(1), session)};
  if (r.output) {
    save(result.plan, *r.output, session);
    result.written = true;
  } else {
    // Printed, it is for the folder one is in.
    const auto here = std::filesystem::current_path();
    result.plan.loaded.plan = rebased(result.plan.loaded.plan, result.plan.folder, here);
    result.plan.folder = here;
  }
  return result;
}

// The model and its costs are measured first; then the plan is made by hand, as of any model.
PlanResult from_torch(PlanRequest r, const Session& session) {
  if (r.common.model.empty()) throw UsageError("--from torch needs FILE.py:FUNCTION");
  if (!r.output) throw UsageError("--from torch needs -o PLAN: its model is written beside it");
  for (const char* name : {"costs", "dtype", "seq-length", "attention", "place", "gpus"}) {
    if (session.given(name))
      throw UsageError(fmt::format("--{} contradicts --from torch: the module says it", name));
  }
  // Sizes around the one that is planned, so that its neighbours need no extrapolation.
  if (r.batch_sizes.empty()) {
    std::set<int> sizes{1, 2, 4};
    sizes.insert(r.micro_batch_size);
    r.batch_sizes.assign(sizes.begin(), sizes.end());
  }
  const TorchModel measured = read_torch_model({.build = r.common.model.string(),
                                                .python = r.python,
                                                .batch_sizes = r.batch_sizes,
                                                .crossing = r.crossing,
                                                .output = session.output(*r.output)},
                                               session);
  r.common.model = measured.model;
  r.common.dtype = to_string(measured.dtype);
  r.costs = measured.costs;
  PlanResult result = by_hand(r, session);
  Plan& plan = result.plan.loaded.plan;
  plan.job = measured.job;
  // The module is measured on one device; the plan has as many as it says.
  plan.job.devices = plan.devices();
  save(result.plan, *r.output, session);
  result.written = true;
  return result;
}

nlohmann::ordered_json arguments_json(const std::vector<JobArgument>& arguments) {
  auto list = nlohmann::ordered_json::array();
  for (const JobArgument& argument : arguments) {
    list.push_back({{"name", argument.name},
                    {"value", argument.value},
                    {"fate", std::string(to_string(argument.fate))}});
  }
  return list;
}

// What --from names.
PlanResult from_elsewhere(const PlanRequest& r, const Session& session) {
  if (r.import.from == kTorch) return from_torch(r, session);
  if (is_job_format(r.import.from)) {
    if (r.place) throw UsageError("--place needs --from SWEEP.json");
    if (r.common.model.empty())
      throw UsageError(fmt::format("--from {} needs the job", r.import.from));
    return from_job(r, session);
  }
  if (!std::filesystem::exists(r.import.from)) {
    throw UsageError(fmt::format(
        "--from {}: expected megatron, torchtitan, neox, deepspeed, nemo, torch or a sweep's "
        "file{}",
        r.import.from,
        did_you_mean(r.import.from, {"megatron", "torchtitan", "neox", "deepspeed", "nemo"})));
  }
  return from_sweep(r, session);
}

// Of plans that are read and not made.
Fields import_fields(PlanRequest& r) {
  const FieldTraits positive{.range = kPositive};
  return {
      {"--from", &r.import.from,
       "Read MODEL as a job of megatron (arguments, launch script; - for standard input), "
       "torchtitan (TOML, Python registry), neox (YAML), nemo (YAML, Megatron-Bridge recipe) or "
       "deepspeed (JSON, with --model); torch: a module, FILE.py:FUNCTION; or a sweep's JSON "
       "file, "
       "without MODEL"},
      {"--python", &r.python,
       "With --from torch: the Python that has PyTorch and the package weir"},
      {"--batch-sizes",
       &r.batch_sizes,
       "With --from torch: samples of a micro-batch to measure, as 1,2,4 (default: these and "
       "--micro-batch-size)",
       {.range = kPositive}},
      {"--crossing", &r.crossing, "With --from torch: tensors that may cross where a stage ends",
       positive},
      {"--place",
       &r.place,
       "With --from SWEEP.json: the plan's place in its list (default: 1)",
       {.range = kPositive}},
      {"--job-model,--model",
       &r.import.model,
       "With --from: the model, where the job only names it and the hub's cache has no such name",
       {.model = true}},
      {"--gpus", &r.import.gpus,
       "Devices of the job: with --from where its file does not say; of --cluster as many nodes "
       "as "
       "they need",
       positive},
      {"--config", &r.import.config,
       "With --from: of a Python file of several configurations, the function's name"},
      {"--vocab-size", &r.import.vocabulary, "With --from: tokens, where the file does not say",
       positive}};
}

}  // namespace

Fields fields(PlanRequest& r) {
  const FieldTraits positive{.range = kPositive};
  Fields all = weir::fields(r.common);
  all.front().traits.required = false;  // a sweep's file says the model
  append(all,
         {{"-K,--pp", &r.pp, "Ranks of the pipeline", positive},
          {"-v,--vpp", &r.vpp, "Stages a rank", positive},
          {"--slices", &r.slices, kSlicesHelp, {.range = kSlices}},
          {"-M,--microbatches", &r.microbatches,
           "Micro-batches a step; unsaid, what -b and --global-batch-size leave, or 1", positive},
          {"-b,--micro-batch-size", &r.micro_batch_size, "Samples a micro-batch", positive},
          {"--global-batch-size", &r.global_batch_size, "Samples a step: G = b M D", positive},
          {"--dynamic-cp",
           &r.dynamic_cp,
           "With --lengths: tokens of a sequence that a device has at most, each sequence alone on "
           "as many of the cp x dp devices as it needs (0: on cp)",
           {.range = kTokens}}});
  append(all, weir::fields(r.parallel));
  append(
      all,
      {{"--schedule", &r.schedule,
        "A schedule's name, a CSV file, exec:COMMAND, run as COMMAND K M v, or auto: the shortest "
        "that is found within the memory, for one or two stages a rank"},
       {"--allow-reordered", &r.allow_reordered,
        "Accept a schedule whose gradients come out of micro-batch order: they are summed in its "
        "order, not in one device's"},
       {"--recompute", &r.recompute,
        "none (never), selective, full (a layer at a time), full:N (N blocks at a time, from one "
        "kept input), stage (always), except-last, the layers that full rebuilds, as 0-11,40, or "
        "modules, as selective:layernorm+moe_act; "
        "auto: the fewest with which each rank fits"},
       {"--recompute-microbatches", &r.recompute_microbatches, "all or except-last"},
       {"--memory-limit", &r.memory_limit,
        "With --recompute or --schedule auto: memory of a device, as \"80 GiB\" (default: the "
        "cluster's)"},
       {"--boundaries",
        &r.boundaries,
        "First layers of stages 1..., as 3,6 (default: by --partition)",
        {.range = kBoundary}},
       {"--skips",
        &r.skips,
        "Skips across stages: relay (the stages between hand them on) or direct (messages from "
        "the stage that makes one to the one that takes it), of a unet of blocks",
        {.choices = {"relay", "direct"}}},
       {"--partition",
        &r.partition,
        "Without --boundaries: optimal (the shortest simulated step), minimax (the fastest "
        "slowest device), uniform (equal numbers of layers), parameters (equal numbers of "
        "them), block (torchgpipe's)",
        {.choices = partition_words()}},
       {"--cluster", &r.cluster,
        "Cluster whose devices the stages are balanced for (default: this machine)"},
       stack_field(r.stack),
       {"--costs", &r.costs, "Costs to balance the stages by (default: built in)"},
       {"--layout", &r.layout,
        "Inside each stage, the layout of a file of weir layout MODEL --program, where it is "
        "Megatron's cut: tp, sequence parallelism, dp and ep, sequences and micro-batch"},
       {"--layout-name", &r.layout_name, "With --layout: which of the file's (default: the first)"},
       {"-o,--output", &r.output, "Plan file (default: stdout)", {.writes = Writes::file}}});
  append(all, import_fields(r));
  append(all, {seed_field(r.seed)});
  return all;
}

PlanResult plan(const PlanRequest& r, const Session& session) {
  if (!r.import.from.empty()) return from_elsewhere(r, session);
  if (r.place) throw UsageError("--place needs --from SWEEP.json");
  if (r.common.model.empty()) throw UsageError("plan: expected a model, or --from");
  // These only tell how --from reads.
  if (session.given("job-model")) throw UsageError("--model needs --from");
  session.refuse({"config", "python", "batch-sizes", "crossing", "vocab-size"}, "needs --from");
  PlanResult result = by_hand(r, session);
  if (r.output) {
    save(result.plan, *r.output, session);
    result.written = true;
  }
  return result;
}

nlohmann::ordered_json to_json(const PlanResult& result) {
  if (!result.imported) return plan_json(result.plan.loaded.plan);
  return {{"schema", "weir.import/1"},
          {"plan", result.imported->plan.string()},
          {"model", result.imported->model.string()},
          {"stack", result.imported->stack},
          {"remarks", to_json(result.imported->remarks)},
          {"defaults", to_json(result.imported->defaults)},
          {"arguments", arguments_json(result.imported->arguments)}};
}

std::string json_text(const PlanResult& result) {
  if (result.imported) return to_json(result).dump(1);
  // On the screen the plan is printed as its file has it.
  return result.written ? plan_json(result.plan.loaded.plan).dump(2) : "";
}

}  // namespace weir::app

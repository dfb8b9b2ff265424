// A search, its rows run, drawn and reported.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exec/processes/all_gather.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "exec/training/trainable.hpp"
#include "plan/job/assumed_stack.hpp"
#include "plan/job/plan_json.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/parallel.hpp"
#include "sim/search/front.hpp"
#include "sim/search/space/baseline.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/sweep_json.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/machine/unnamed_software.hpp"
#include "tools/app/run/synthetic.hpp"
#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/shared/exit_code.hpp"
#include "tools/app/shared/training_fields.hpp"
#include "tools/app/shared/training_tokens.hpp"
#include "tools/app/simulate/builtin_accuracy.hpp"
#include "tools/app/sweep/search_request.hpp"
#include "tools/app/sweep/search_rounds.hpp"
#include "tools/app/sweep/sweep_files.hpp"
#include "tools/app/sweep/sweep_layouts.hpp"
#include "tools/app/sweep/trainer_says.hpp"
#include "tools/app/sweep/verdict.hpp"
#include "tools/report/picture_file.hpp"
#include "tools/reproduce/known_software.hpp"
#include "traces/metrics.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

Costs costs_for(const SweepRequest& r, const Model& model, const weir::SweepRequest& search,
                const Cluster& cluster) {
  Model layers = with_shards(search, model);
  // A baseline that divides the vocabulary has layers of its own.
  if (search.baseline && search.baseline->schedule.shape.shards() > 0) {
    const std::vector<Layer>& its = search.baseline->model.layers;
    layers.layers.insert(layers.layers.end(), its.begin(), its.end());
  }
  return load(r.costs, layers, search.base, cluster, splits(search, model));
}

// What is listed says how sure it is as a forecast of it alone would.
void widen_listed(SweepReply& reply, const SweepRequest& r, const weir::SweepRequest& search) {
  if (!is_assumed(reply.cluster.stack)) return;
  const auto widen = [&](Ranked& one) {
    // The search has asked the software already, where its space is large.
    if (one.range) return set_interval(one.forecast, *one.range, unnamed_interval());
    widen_for_unnamed(one.forecast, resolve(one.plan, search.folder), reply.cluster);
  };
  const std::size_t listed = std::min<std::size_t>(std::max(r.top, 1), reply.result.plans.size());
  in_parallel(listed, [&](std::size_t i) { widen(reply.result.plans[i]); });
  if (reply.result.baseline) widen(reply.result.baseline->ranked);
}

// The plan that the search is compared with; takes what the request leaves open from it. None:
// nobody named one.
std::optional<ResolvedPlan> taken_baseline(SweepRequest& r, std::string& name,
                                           const Session& session) {
  if (!is_given(r.baseline)) return std::nullopt;
  name = name_of(r.baseline);
  PlacedPlan placed = load(r.baseline, session);
  complete(r, placed.loaded.plan, session);
  // From here on its paths are relative to this folder, as those of the candidates.
  placed.loaded.plan = rebased(placed.loaded.plan, placed.folder, ".");
  return std::move(placed.loaded);
}

// What the search keeps beside its best plans, for those who ask why or about pipelines.
void keep_families(weir::SweepRequest& search, bool explain) {
  if (explain) {
    search.families = families_of(search);
    search.front = true;
  }
  // Where the best plan has no pipeline, people who asked about one are told of the best that has.
  const int ranks = search.baseline ? search.baseline->plan.pp : 1;
  search.families.push_back(
      {"K", ranks > 1 ? std::to_string(ranks) : "above 1",
       [ranks](const Plan& plan) { return ranks > 1 ? plan.pp == ranks : plan.pp > 1; }, true});
}

// What a whole training takes is told with every plan that is handed out.
void set_training(SweepReply& reply, const std::optional<double>& tokens) {
  weir::SweepResult& result = reply.result;
  for (Ranked& listed : result.plans) listed.forecast.training_tokens = tokens;
  for (Ranked& of_front : reply.front) of_front.forecast.training_tokens = tokens;
  if (result.baseline) result.baseline->ranked.forecast.training_tokens = tokens;
  if (result.faster_if_it_fits) result.faster_if_it_fits->forecast.training_tokens = tokens;
  if (reply.with_pipeline && reply.with_pipeline->best)
    reply.with_pipeline->best->forecast.training_tokens = tokens;
}

// A search that found something; `party`: the processes that search together, `others`, where there
// are any.
SweepReply found(SweepRequest r, const Session& session, std::optional<SearchParty> party,
                 Processes* others) {
  std::string baseline_name;
  std::optional<ResolvedPlan> baseline = taken_baseline(r, baseline_name, session);
  const MachineChoice choice{r.cluster, r.stack, r.costs, r.any_schedule,
                             baseline ? stack_of(baseline->plan.job) : std::string()};
  SweepReply reply{.cluster = machine(choice), .baseline_name = std::move(baseline_name)};
  // From here on, so that the model and its pricing are within it; what is known of the parts, a
  // baseline among them, had to be read first.
  reply.time = TimeBound(r.budget, {baseline.has_value(), r.explain, r.report.has_value()});
  take_devices(r, reply);
  if (!baseline) complete(r, reply, session);
  const bool searches = leaves_degrees_open(r);
  if (!searches) say_the_rest(r);
  const Model model = load_model(r.common);
  require_experts(r.parallel, model);
  const std::optional<FileLayouts> of_file = taken_layouts(r, model, session);
  for (const std::string& line : of_file.value_or(FileLayouts()).left_out) session.note(line);
  Plan base = base_plan(r.common, r.seed, model, session);
  if (baseline) take_unnamed(baseline->plan, base);
  require_tokens(r.train_tokens, base);
  require_positions(base, model, base.model_path);
  weir::SweepRequest search = search_for(r, base, reply.cluster, session);
  // A run is of every plan, as is a list of what was said; a report has five.
  if (!r.run && searches) search.keep = std::max(r.top, r.report ? 5 : 1);
  // A run is of plans that can be run.
  search.any_schedule = r.any_schedule && !r.run;
  search.software = reply.software = abilities_for(abilities(choice, reply.cluster), model);
  for (std::string& line : named_beyond(search, whose_abilities(reply.cluster.stack.name)))
    reply.remarks.push_back(std::move(line));
  search.baseline = std::move(baseline);
  const auto differs =
      search.baseline ? incomparable(*search.baseline, search, model) : std::nullopt;
  // Rates of unequal work do not compare: the baseline must train the same.
  if (differs) throw InputError(reply.baseline_name, differs->key, differs->reason);
  weir::SweepRequest asked = search;
  search = with_open_choices(std::move(search), model, reply.cluster);
  // Before anything is searched: every row would be run.
  for (const std::string& schedule : search.schedules)
    if (r.run) require_whole_vocabulary(schedule);
  set_layouts(search, r, model, of_file, session);
  keep_families(search, r.explain);
  reply.costs = costs_for(r, model, search, reply.cluster);
  search.known_software = unnamed_software(search.base.dtype, reply.costs.basis, reply.cluster);
  if (r.stopping) static_cast<void>(r.stopping());  // from here on it listens
  search.budget = reply.time.left(TimeBound::Part::search);
  const Searchers by{r, std::move(party), others, session};
  search_all(search, asked, reply, by);
  if (!by.lead()) {
    // What the result means the first process alone says, so that the others' endings cannot come
    // before its own while it still waits for the search's last exchange.
    if (reply.result.stopped_after && r.stopping) reply.stopped_by = r.stopping();
    return reply;
  }
  require_feasible(reply, search, session);
  if (!r.may_fit && !r.run) require_sure_fit(reply.result);
  if (reply.result.plans.front().plan.pp == 1 && !reply.result.families.empty())
    reply.with_pipeline = std::move(reply.result.families.back());
  reply.layouts = listed_layouts(search, model, reply.result.plans);
  // Beyond the stack's limits a search goes where it was asked to.
  if (!r.any_schedule) {
    const ResolvedPlan best = resolve(reply.result.plans.front().plan, search.folder);
    auto refusal = trainer_refuses(reply.cluster.stack.name, best,
                                   search.baseline ? &*search.baseline : nullptr);
    if (refusal) reply.remarks.push_back(std::move(*refusal));
  }
  const Searched searched_for{asked, search, reply.result, reply.time, reply.not_looked_at};
  reply.first_changes = first_changes_for(searched_for, r.costs, reply.cluster);
  // Interrupted: what was found so far is an answer, its reasons would be of half a search.
  if (reply.result.stopped_after) {
    if (r.stopping) reply.stopped_by = r.stopping();
    session.progress("sweep", 1, 1);  // wipes the bar
    session.fault()(fmt::format("stopped: the best of {} candidates out of {}{}",
                                *reply.result.stopped_after, reply.result.candidates,
                                reply.result.listed ? "" : ", and not all were listed"));
  } else if (r.explain) {
    reply.reasons = reasons_for(searched_for, r.costs, reply.costs, reply.cluster);
    if (r.stopping) reply.stopped_by = r.stopping();
    if (reply.stopped_by != 0) session.fault()("stopped: not every reason was looked for");
  }
  widen_listed(reply, r, search);
  // Without a front of the search's own, that of the listed plans.
  reply.front = reply.result.front.empty() ? pareto_front(reply.result.plans) : reply.result.front;
  set_training(reply, r.train_tokens);
  return reply;
}

// The best `top` plans, and the baseline at its place, or last.
std::vector<SweepRow> rows_of(const weir::SweepResult& result, std::size_t top) {
  std::vector<SweepRow> rows;
  for (std::size_t i = 0; i < std::min(top, result.plans.size()); ++i) rows.push_back({.place = i});
  if (!result.baseline) return rows;
  const std::size_t place =
      result.baseline->place ? static_cast<std::size_t>(*result.baseline->place) - 1 : rows.size();
  const auto at = rows.begin() + static_cast<std::ptrdiff_t>(std::min(place, rows.size()));
  rows.insert(at, {.baseline = true});
  return rows;
}

void run_rows(SweepReply& reply, const SweepRequest& r, const Session& session) {
  const Backends backends = available_backends();
  for (std::size_t i = 0; i < reply.rows.size(); ++i) {
    // Between runs, so that a run that has begun is a whole measurement.
    reply.stopped_by = r.stopping ? r.stopping() : 0;
    if (reply.stopped_by != 0) {
      session.progress("run", 1, 1);  // wipes the bar
      session.fault()(fmt::format("stopped: {} of {} plans were run", i, reply.rows.size()));
      return;
    }
    SweepRow& row = reply.rows[i];
    const ResolvedPlan loaded = resolve(reply.ranked(row).plan, ".");
    RunOptions options;
    options.backend = parse_backend(r.backend);
    options.steps = r.steps;
    if (options.backend == BackendKind::synthetic)
      options.synthetic_duration_ns = synthetic_step(loaded, r.costs).duration_ns;
    const weir::RunResult result = run_in_one_process(loaded, options, backends);
    row.measured = result.step_time;
    std::vector<double> bubbles;
    const Program& program = loaded.program;
    for (std::int32_t step = 0; step < r.steps; ++step)
      bubbles.push_back(step_metrics(program, result.trace, step).bubble_fraction);
    // The step of median bubble stands for the row.
    std::ranges::sort(bubbles);
    row.bubble = bubbles[bubbles.size() / 2];
    session.progress("run", static_cast<int>(i) + 1, static_cast<int>(reply.rows.size()));
  }
}

nlohmann::ordered_json json_of(const SweepReply& reply) {
  auto json = sweep_json(reply.result);
  for (std::size_t i = 0; i < reply.layouts.size(); ++i)
    json["plans"][i]["layout"] = to_json(reply.layouts[i]);
  for (const SweepRow& row : reply.rows) {
    auto& its = row.baseline ? json["baseline"] : json["plans"][row.place];
    if (row.measured) its["measured_step_time_s"] = row.measured->count();
    if (row.bubble) its["measured_bubble_fraction"] = *row.bubble;
  }
  if (!reply.first_changes.empty()) json["first_changes"] = to_json(reply.first_changes);
  if (reply.with_pipeline && reply.with_pipeline->best) {
    const Ranked& best = *reply.with_pipeline->best;
    json["with_pipeline"] = {{"step_time_s", best.forecast.step_time.count()},
                             {"peak_memory_bytes", best.forecast.peak_memory().count()},
                             {"plan", plan_json(best.plan)}};
  }
  if (reply.reasons) json["explained"] = to_json(*reply.reasons, reply.front);
  if (!reply.not_looked_at.empty()) json["not_looked_at"] = reply.not_looked_at;
  if (!reply.remarks.empty()) json["remarks"] = reply.remarks;
  // Built-in costs say how far off they were elsewhere.
  if (reply.costs.basis == Basis::builtin)
    return with_accuracy(std::move(json), reply.cluster.device.name);
  return json;
}

// Which plans are looked at.
Fields space_fields(SweepRequest& r) {
  Fields all = weir::fields(r.common);
  append(all,
         {{"-K,--pp", &r.pp, "Ranks: 4, 1,2,4 or 1..8", {.range = kPositive}},
          {"-v,--vpp",
           &r.vpp,
           "Stages a rank (default: 1, 2 and what divides a rank's blocks, up to 64)",
           {.range = kChunks}},
          {"--slices",
           &r.slices,
           "Slices of a sequence, for schedules that slice (1: for the others)",
           {.range = kSlices}},
          {"-M,--microbatches",
           &r.microbatches,
           "Micro-batches (default: all divisors of the mini-batch)",
           {.range = kPositive}},
          {"-b,--micro-batch-size",
           &r.micro_batch_size,
           "Samples a micro-batch, without --global-batch-size",
           {.range = kPositive}},
          {"--dynamic-cp",
           &r.dynamic_cp,
           "With --lengths: beside each plan without a pipeline it with each sequence alone on "
           "as many of the cp x dp devices as it needs, so many tokens of it on one at most "
           "(0: rows on cp alone)",
           {.range = kTokens}}});
  append(all, weir::fields(r.parallel));
  append(all,
         {{"--layouts", &r.layouts,
           "Layouts inside stages, searched with K: all that are Megatron's cut of the model, or "
           "those of a layout file"},
          {"--global-batch-size", &r.global_batch_size, "Samples a step", {.range = kPositive}},
          {"--gpus",
           &r.gpus,
           "Devices that every plan uses (default: the cluster's)",
           {.range = kPositive}},
          {"--at-most", &r.at_most, "Devices of which a plan may use fewer", {.range = kPositive}},
          {"--schedule", &r.schedule, "Schedules, as gpipe,1f1b", {.choices = generator_names()}},
          {"--recompute", &r.recompute,
           "none, selective, full, full:N, stage, except-last, or several"}});
  return all;
}

}  // namespace

Fields fields(SweepRequest& r) {
  Fields all = space_fields(r);
  append(
      all,
      {{"--budget", &r.budget,
        "Search and explain so long, as 30s (default: until no plan can be better, or 1,024 were "
        "refined)"},
       train_tokens_field(r.train_tokens),
       {"--memory-limit", &r.memory_limit, "Memory of a device, as \"80 GiB\""},
       {"--may-fit", &r.may_fit,
        "List plans that may fit where none surely does (default: none is an answer)"},
       {"--costs", &r.costs, "Costs file (default: built in)"},
       {"--cluster", &r.cluster, "Cluster file or name (default: this machine)"},
       stack_field(r.stack),
       any_schedule_field(r.any_schedule),
       {"--baseline", &r.baseline,
        "The plan in use today, ranked among the results; sequence length, number format, "
        "attention, optimizer with its rate, decay and clipping, seed, rank order, overlap of the "
        "reduction and mini-batch are its own where no option says them"},
       {"--top", &r.top, "Plans to list", {.range = kRows}},
       {"--plans", &r.plans, "Write each listed plan into this folder", {.writes = Writes::folder}},
       {"--threads", &r.threads, "Threads of the search (0: all cores)", {.range = kThreads}},
       {"--explain", &r.explain,
        "Say why: the best plan's critical path, what one change would bring, the best plan of "
        "each other schedule, re-materialisation, ZeRO stage and degree, and what the baseline "
        "gains by each of the best plan's choices"},
       {"--pareto",
        &r.pareto,
        "Step time against peak memory as a picture (SVG or PDF), the Pareto front marked, its "
        "data beside it as NAME.data.csv",
        {.writes = Writes::file, .with_it = &data_file}},
       {"--run", &r.run, "Execute each row"},
       {"--backend", &r.backend, "Where --run executes: cpu or synthetic"},
       {"--steps", &r.steps, "Measured steps of --run", {.range = kSteps}},
       {"--svg,--pdf",
        &r.picture,
        "Bubble and memory against M as a picture, its data beside it as NAME.data.csv (--run: "
        "weir-out/sweep.svg)",
        {.writes = Writes::file, .with_it = &data_file}},
       {"-o,--output", &r.output, "Write weir.sweep/1 JSON", {.writes = Writes::file}},
       {"--report",
        &r.report,
        "Write an HTML page: the best plans, the baseline, how far to trust them",
        {.writes = Writes::file}},
       {"--resume", &r.resume,
        "Go on from where a search with this output was interrupted (OUTPUT.search), to the same "
        "result"},
       seed_field(r.seed)});
  append(all, fields(r.processes));
  return all;
}

namespace {

SweepReply sweep(const SweepRequest& r, const Session& session, std::optional<SearchParty> party,
                 Processes* others) {
  SweepReply reply = found(r, session, std::move(party), others);
  // A run is of every plan that was found, a list of the first.
  reply.rows = rows_of(reply.result, r.run ? reply.result.plans.size()
                                           : static_cast<std::size_t>(std::max(r.top, 0)));
  if (r.run) run_rows(reply, r, session);
  reply.picture = r.picture;
  if (r.run && !r.picture) reply.picture = "weir-out/sweep.svg";
  if (reply.picture) draw(reply, *reply.picture, session);
  if (r.pareto) draw_front(reply, *r.pareto, session);
  if (r.report) write_report(reply, r, trust(reply), session);
  if (r.plans) write_plans(reply, *r.plans, session);
  if (r.output) {
    // Plans in the file are read from its folder: their paths start there.
    const auto folder = std::filesystem::absolute(session.output(*r.output)).parent_path();
    const auto json = json_of(placed_in(reply, folder));
    write_file_atomically(*r.output, json.dump(2) + "\n");
  }
  return reply;
}

// One of several processes that search together: the leader has the reply, and speaks.
SweepReply sweep_with_others(const SweepRequest& r, const Session& session) {
  if (r.run) throw UsageError("--run runs plans by threads: leave out --transport");
  const ProcessSession joined = open_session(TransportKind::mpi, r.processes, session);
  Processes& processes = *joined.processes;
  const SearchParty party{
      processes.index(), processes.count(),
      [&processes](const std::string& text) { return all_gather(processes, text); }};
  try {
    SweepReply reply;
    if (processes.index() == 0) {
      reply = sweep(r, session, party, &processes);
    } else {
      // What it finds the leader has found; what comes after the search is the leader's alone.
      Session silent(session);
      silent.note = silent.log = [](const std::string&) {};
      silent.progress = [](const std::string&, int, int) {};
      static_cast<void>(found(r, silent, party, &processes));
      reply.leads = false;
    }
    processes.barrier();
    return reply;
  } catch (const Transport::Stopped&) {
    throw EndedTogether(processes.conclude({}));
  } catch (...) {
    throw EndedTogether(processes.conclude(ending_of(std::current_exception())));
  }
}

}  // namespace

SweepReply sweep(const SweepRequest& r, const Session& session) {
  const TransportKind transport = choose_transport(r.processes);
  if (transport == TransportKind::nccl)
    throw UsageError("--transport nccl: expected threads or mpi, a search sends texts");
  return transport == TransportKind::threads ? sweep(r, session, {}, nullptr)
                                             : sweep_with_others(r, session);
}

std::string trust(const SweepReply& reply) {
  const std::string& device = reply.cluster.device.name;
  if (reply.costs.basis == Basis::builtin) return describe(builtin_accuracy(device), device);
  return fmt::format("{} costs of {}", to_string(reply.costs.basis), reply.costs.machine);
}

nlohmann::ordered_json to_json(const SweepReply& reply) {
  return reply.leads ? json_of(reply) : nlohmann::ordered_json();
}

}  // namespace weir::app

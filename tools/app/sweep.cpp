// A search, its rows run, drawn and reported.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "exec/processes/all_gather.hpp"
#include "exec/run/run.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/search/baseline.hpp"
#include "sim/search/open_choices.hpp"
#include "sim/search/sweep_json.hpp"
#include "tools/app/builtin_accuracy.hpp"
#include "tools/app/exit_code.hpp"
#include "tools/app/host.hpp"
#include "tools/app/picture.hpp"
#include "tools/app/schedule_source.hpp"
#include "tools/app/search_file.hpp"
#include "tools/app/synthetic.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/search.hpp"
#include "traces/metrics.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

// On a terminal: how far, how fast, and the best so far.
void show(const SearchProgress& progress, const Session& session) {
  const double rate = static_cast<double>(progress.done) / std::max(progress.seconds, 1e-9);
  const std::string best =
      progress.best ? ", best " + format_duration(*progress.best) : std::string();
  session.progress(fmt::format("sweep {:.0f}/s{}", rate, best), static_cast<int>(progress.done),
                   static_cast<int>(progress.of));
}

// What the request leaves open is the baseline's.
void complete(SweepRequest& r, const Plan& baseline, const Session& session) {
  if (!session.given("seq-length")) r.common.seq_length = baseline.seq_length;
  if (!session.given("dtype")) r.common.dtype = to_string(baseline.dtype);
  if (!session.given("attention")) r.common.attention = to_string(baseline.attention);
  if (!session.given("optimizer")) r.common.optimizer = to_string(baseline.optimizer.kind);
  if (!r.global_batch_size) r.global_batch_size = static_cast<int>(baseline.global_batch_size());
}

// Of a GPU cluster nobody trains in fp32 any more, and all have a fused attention.
void complete(SweepRequest& r, SweepReply& reply, const Session& session) {
  if (!reply.cluster.device.kernels) return;
  if (!session.given("dtype")) {
    r.common.dtype = "bf16";
    reply.remarks.emplace_back("dtype: bf16, none being named with --dtype");
  }
  if (!session.given("attention")) {
    r.common.attention = "fused";
    reply.remarks.emplace_back("attention: fused, none being named with --attention");
  }
}

// Whether the search chooses degrees: on a cluster where one was not said, or where devices were.
// This machine runs pipelines, and no other kind of parallelism.
bool leaves_degrees_open(const SweepRequest& r) {
  const bool open =
      r.pp.empty() || r.parallel.tp.empty() || r.parallel.cp.empty() || r.parallel.dp.empty();
  return r.gpus || r.at_most || (r.cluster && open);
}

// Elsewhere what was not said is plain.
void say_the_rest(SweepRequest& r) {
  const auto otherwise = [](auto& list, const auto& choice) {
    if (list.empty()) list = choice;
  };
  otherwise(r.pp, std::vector{1, 2, 3, 4, 5, 6, 7, 8});
  for (auto* degree : {&r.vpp, &r.parallel.tp, &r.parallel.cp, &r.parallel.dp})
    otherwise(*degree, std::vector{1});
  otherwise(r.parallel.zero, std::vector{0});
  otherwise(r.parallel.ep, std::vector{1});
  otherwise(r.schedule.words, std::vector<std::string>{"gpipe", "1f1b"});
  otherwise(r.recompute.words, std::vector<std::string>{"none"});
}

// The devices asked for, on as many of the cluster's nodes as they need.
void take_devices(const SweepRequest& r, SweepReply& reply) {
  Cluster& cluster = reply.cluster;
  if (r.gpus && r.at_most) throw UsageError("--gpus and --at-most: expected one of them");
  const std::optional<int> devices = r.gpus ? r.gpus : r.at_most;
  if (!devices || *devices <= cluster.devices()) return;
  const int nodes = (*devices + cluster.devices_per_node - 1) / cluster.devices_per_node;
  reply.remarks.push_back(fmt::format("{}: {} nodes of {} devices are taken, its file has {}",
                                      cluster.name, nodes, cluster.devices_per_node,
                                      cluster.nodes));
  cluster.nodes = nodes;
}

void set_limits(weir::SweepRequest& search, const SweepRequest& r, const Cluster& cluster) {
  if (!r.global_batch_size && r.microbatches.empty())
    throw UsageError("sweep needs --microbatches, --global-batch-size, or both");
  search.memory_limit = r.memory_limit.empty() ? cluster.device.memory
                                               : parse_memory(r.memory_limit, "--memory-limit");
  if (!r.budget.empty()) search.budget = parse_duration(r.budget, "--budget");
  if (!r.cluster && !r.gpus && !r.at_most) return;
  // All of them where the search has a degree to choose; where each was said, no more than them.
  const bool open =
      search.pp.empty() || search.tp.empty() || search.cp.empty() || search.dp.empty();
  search.devices = r.gpus ? *r.gpus : r.at_most.value_or(cluster.devices());
  search.exact_devices = r.gpus || (!r.at_most && open);
  if (search.pp.empty()) return;
  std::erase_if(search.pp, [&](int k) { return k > *search.devices; });
  if (search.pp.empty()) {
    throw NoFeasiblePlan(fmt::format(
        "{} has {} devices", r.cluster ? r.cluster->string() : "the search", *search.devices));
  }
}

weir::SweepRequest search_for(const SweepRequest& r, const Plan& base, const Cluster& cluster,
                              const Session& session) {
  for (const auto& [list, name] :
       {std::pair(&r.pp, "pp"), {&r.vpp, "vpp"}, {&r.micro_batch_size, "micro-batch-size"}}) {
    if (list->empty() && session.given(name))
      throw UsageError("sweep: expected at least one of --pp, --vpp and --micro-batch-size");
  }
  weir::SweepRequest search;
  search.base = base;
  search.exact_slots = r.common.slots.has_value();
  search.folder = ".";
  search.pp = r.pp;
  search.vpp = r.vpp;
  search.microbatches = r.microbatches;
  search.micro_batch_size = r.micro_batch_size;
  search.global_batch_size = r.global_batch_size;
  search.schedules = r.schedule.words;
  search.recompute.clear();
  for (const std::string& mode : r.recompute.words) {
    search.recompute.push_back(parse_recompute(mode, ""));
    if (search.recompute.back().layers.empty()) continue;
    throw UsageError(
        fmt::format("--recompute {}: a sweep takes none, selective, full, stage and "
                    "except-last",
                    mode));
  }
  apply(r.parallel, search);
  set_limits(search, r, cluster);
  search.threads = r.threads;
  search.stop = r.stopping;
  search.progress = [&session](const SearchProgress& progress) { show(progress, session); };
  return search;
}

// What people should know where nothing fits: why, and what the plan in use needs.
void require_feasible(const SweepReply& reply, const weir::SweepRequest& search,
                      const Session& session) {
  const weir::SweepResult& result = reply.result;
  if (!result.plans.empty()) return;
  if (result.stopped_after) throw RunFailed("stopped before a plan was found");
  for (const std::string& reason : result.refused) session.note("left out: " + reason);
  for (const LeftOut& left_out : result.left_out) session.note("left out: " + to_text(left_out));
  if (result.baseline) {
    const Forecast& f = result.baseline->ranked.forecast;
    session.note(fmt::format("baseline {}: {} a step, {} on its fullest device",
                             reply.baseline_name, format_duration(f.step_time),
                             format_bytes(f.peak_memory())));
  }
  if (result.smallest_misfit) {
    throw NoFeasiblePlan(fmt::format("no plan fits {}; the smallest ({}) needs {}",
                                     format_bytes(*search.memory_limit),
                                     summary(result.smallest_misfit->plan),
                                     format_bytes(result.smallest_misfit->forecast.peak_memory())));
  }
  if (result.effort && result.effort->looked_at < result.candidates) {
    throw NoFeasiblePlan(fmt::format(
        "none of {} candidates of {} fits {}; a longer budget looks on", result.effort->looked_at,
        result.candidates, format_bytes(*search.memory_limit)));
  }
  throw NoFeasiblePlan(result.candidates > 0
                           ? fmt::format("no plan fits {}", format_bytes(*search.memory_limit))
                           : "no plan is possible for these options");
}

Costs costs_for(const SweepRequest& r, const Model& model, const weir::SweepRequest& search,
                const Cluster& cluster) {
  return load(r.costs, model, search.base, cluster, splits(search, model));
}

// The search, which leaves where it stands beside its output until it is done.
weir::SweepResult searched(weir::SweepRequest search, const SweepRequest& r,
                           const SweepReply& reply, std::optional<SearchParty> party,
                           const Session& session) {
  const bool leads = !party || party->index == 0;
  std::optional<SearchFile> file;
  if (r.output) file.emplace(*r.output, search, reply.costs, reply.cluster, session);
  if (r.resume && !file) throw UsageError("--resume needs --output, beside which a search stands");
  if (r.resume) {
    search.resume = file->state();
    if (!search.resume) session.note("nothing unfinished beside " + r.output->string());
  }
  if (file && leads) search.checkpoint = [&](const SearchState& state) { file->keep(state); };
  search.party = std::move(party);
  weir::SweepResult result = weir::sweep(search, reply.costs, reply.cluster);
  if (file && leads && !result.stopped_after) file->remove();
  return result;
}

// A search that found something; `party`: the processes that search together.
SweepReply found(SweepRequest r, const Session& session, std::optional<SearchParty> party) {
  SweepReply reply{.cluster = machine({r.cluster, r.stack, r.costs})};
  take_devices(r, reply);
  std::optional<ResolvedPlan> baseline;
  if (is_given(r.baseline)) {
    reply.baseline_name = name_of(r.baseline);
    PlacedPlan placed = load(r.baseline, session);
    complete(r, placed.loaded.plan, session);
    // From here on its paths are relative to this folder, as those of the candidates.
    placed.loaded.plan = rebased(placed.loaded.plan, placed.folder, ".");
    baseline = std::move(placed.loaded);
  } else {
    complete(r, reply, session);
  }
  const bool searches = leaves_degrees_open(r);
  if (!searches) say_the_rest(r);
  const Model model = load_model(r.common);
  const Plan base = base_plan(r.common, r.seed, model, session);
  weir::SweepRequest search = search_for(r, base, reply.cluster, session);
  // A run is of every plan, as is a list of what was said; a report has five.
  if (!r.run && searches) search.keep = std::max(r.top, r.report ? 5 : 1);
  search.baseline = std::move(baseline);
  const auto differs =
      search.baseline ? incomparable(*search.baseline, search, model) : std::nullopt;
  if (differs) throw InputError(reply.baseline_name, differs->key, differs->reason);
  search = with_open_choices(std::move(search), model, reply.cluster);
  reply.costs = costs_for(r, model, search, reply.cluster);
  if (r.stopping) static_cast<void>(r.stopping());  // from here on it listens
  reply.result = searched(search, r, reply, std::move(party), session);
  require_feasible(reply, search, session);
  if (reply.result.stopped_after) {
    session.progress("sweep", 1, 1);  // wipes the bar
    session.note(fmt::format("stopped: the best of {} candidates out of {}",
                             *reply.result.stopped_after, reply.result.candidates));
  } else if (r.explain) {
    reply.reasons = reasons_for(search, reply.result, r.costs, reply.costs, reply.cluster);
  }
  reply.front = pareto_front(reply.result.plans,
                             reply.reasons ? reply.reasons->rejected : std::vector<Rejected>());
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
    if (r.stopping && r.stopping()) {
      session.progress("run", 1, 1);  // wipes the bar
      session.note(fmt::format("stopped: {} of {} plans were run", i, reply.rows.size()));
      return;
    }
    SweepRow& row = reply.rows[i];
    const ResolvedPlan loaded = resolve(reply.ranked(row).plan, ".");
    RunOptions options;
    options.backend = parse_backend(r.backend);
    options.steps = r.steps;
    if (options.backend == BackendKind::synthetic)
      options.synthetic_duration_ns = synthetic_step(loaded, r.costs).duration_ns;
    const weir::RunResult result = weir::run(loaded, options, backends);
    row.measured = result.step_time;
    std::vector<double> bubbles;
    const Program& program = loaded.program;
    for (std::int32_t step = 0; step < r.steps; ++step)
      bubbles.push_back(step_metrics(program, result.trace, step).bubble_fraction);
    std::ranges::sort(bubbles);
    row.bubble = bubbles[bubbles.size() / 2];
    session.progress("run", static_cast<int>(i) + 1, static_cast<int>(reply.rows.size()));
  }
}

// Bubble and memory against M for the largest K that was run with several M.
void draw(const SweepReply& reply, const std::filesystem::path& file, const Session& session) {
  int ranks = 0;
  for (const SweepRow& row : reply.rows) ranks = std::max(ranks, reply.ranked(row).plan.pp);
  std::map<int, BubblePoint> points;
  for (const SweepRow& row : reply.rows) {
    const auto& [plan, forecast, gap, pareto] = reply.ranked(row);
    if (plan.pp != ranks || points.contains(plan.microbatches)) continue;  // best first
    points[plan.microbatches] = {plan.microbatches, forecast.metrics.bubble_fraction, row.bubble,
                                 static_cast<double>(forecast.peak_memory().count()) / (1 << 30)};
  }
  std::vector<BubblePoint> ordered;
  for (const auto& [m, point] : points) ordered.push_back(point);
  const auto [bubble, memory] = bubble_charts(ordered, ranks);
  save_picture(beside(draw_chart(bubble), draw_chart(memory)),
               chart_csv(bubble) + chart_csv(memory), file, session);
}

void write_report(const SweepReply& reply, const SweepRequest& r, const Session& session) {
  const weir::SweepResult& result = reply.result;
  SearchReport report{.title = "weir sweep: " + r.common.model.filename().string(),
                      .machine = reply.cluster.name,
                      .costs_origin = reply.costs.origin,
                      .trust = trust(reply),
                      .result = &result,
                      .front = &reply.front};
  for (const Ranked& ranked : result.plans) report.names.push_back(summary(ranked.plan));
  if (result.baseline) report.baseline_name = summary(result.baseline->ranked.plan);
  report.best = forecast(resolve(result.plans.front().plan, "."), reply.costs, reply.cluster).trace;
  write_file_atomically(session.output(*r.report), search_html(report));
}

// The reply with plans for files in `folder`.
SweepReply placed_in(SweepReply reply, const std::filesystem::path& folder) {
  const auto move = [&](Plan& plan) { plan = rebased(std::move(plan), ".", folder); };
  for (Ranked& ranked : reply.result.plans) move(ranked.plan);
  for (Ranked& ranked : reply.front) move(ranked.plan);
  if (reply.result.baseline) move(reply.result.baseline->ranked.plan);
  if (!reply.reasons) return reply;
  for (WhatIf& row : reply.reasons->what_if) move(row.change.plan);
  if (reply.reasons->towards) {
    for (WhatIf& row : *reply.reasons->towards) move(row.change.plan);
  }
  for (Rejected& one : reply.reasons->rejected) {
    if (one.best) move(one.best->plan);
  }
  return reply;
}

// Each listed plan as plan-1.json, plan-2.json, ...
void write_plans(const SweepReply& reply, const std::filesystem::path& folder,
                 const Session& session) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < reply.result.plans.size(); ++i) {
    const auto file = folder / fmt::format("plan-{}.json", i + 1);
    save_plan(rebased(reply.result.plans[i].plan, ".", folder), session.output(file));
  }
}

void draw_front(const SweepReply& reply, const std::filesystem::path& file,
                const Session& session) {
  const Chart chart = front_chart(reply.result.plans, reply.front);
  save_picture(draw_chart(chart), chart_csv(chart), file, session);
}

nlohmann::ordered_json json_of(const SweepReply& reply) {
  auto json = sweep_json(reply.result);
  for (const SweepRow& row : reply.rows) {
    auto& its = row.baseline ? json["baseline"] : json["plans"][row.place];
    if (row.measured) its["measured_step_time_s"] = row.measured->count();
    if (row.bubble) its["measured_bubble_fraction"] = *row.bubble;
  }
  if (reply.reasons) json["explained"] = to_json(*reply.reasons, reply.front);
  if (reply.costs.basis == Basis::builtin)
    return with_accuracy(std::move(json), reply.cluster.device.name);
  return json;
}

}  // namespace

Fields fields(SweepRequest& r) {
  Fields all = weir::fields(r.common);
  append(all, {{"-K,--pp", &r.pp, "Ranks: 4, 1,2,4 or 1..8", {.range = kPositive}},
               {"-v,--vpp", &r.vpp, "Stages a rank", {.range = kChunks}},
               {"-M,--microbatches",
                &r.microbatches,
                "Micro-batches (default: all divisors of the mini-batch)",
                {.range = kPositive}},
               {"-b,--micro-batch-size",
                &r.micro_batch_size,
                "Samples a micro-batch, without --global-batch-size",
                {.range = kPositive}}});
  append(all, weir::fields(r.parallel));
  append(
      all,
      {{"--global-batch-size", &r.global_batch_size, "Samples a step", {.range = kPositive}},
       {"--gpus",
        &r.gpus,
        "Devices that every plan uses (default: the cluster's)",
        {.range = kPositive}},
       {"--at-most", &r.at_most, "Devices of which a plan may use fewer", {.range = kPositive}},
       {"--schedule", &r.schedule, "Schedules, as gpipe,1f1b", {.choices = generator_names()}},
       {"--recompute", &r.recompute, "none, selective, full, stage, except-last, or several"},
       {"--budget", &r.budget,
        "Search so long, as 30s (default: until no plan can be better, or 256 were refined)"},
       {"--memory-limit", &r.memory_limit, "Memory of a device, as \"80 GiB\""},
       {"--costs", &r.costs, "Costs file (default: built in)"},
       {"--cluster", &r.cluster, "Cluster file or name (default: this machine)"},
       stack_field(r.stack),
       {"--baseline", &r.baseline,
        "The plan in use today, ranked among the results; sequence length, number format, "
        "attention, optimizer and mini-batch are its own where no option says them"},
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
        {.writes = Writes::file}},
       {"--run", &r.run, "Execute each row"},
       {"--backend", &r.backend, "Where --run executes: cpu or synthetic"},
       {"--steps", &r.steps, "Measured steps of --run", {.range = kSteps}},
       {"--svg,--pdf",
        &r.picture,
        "Bubble and memory against M as a picture, its data beside it as NAME.data.csv (--run: "
        "weir-out/sweep.svg)",
        {.writes = Writes::file}},
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

SweepReply sweep(const SweepRequest& r, const Session& session, std::optional<SearchParty> party) {
  SweepReply reply = found(r, session, std::move(party));
  reply.rows = rows_of(reply.result, r.run ? reply.result.plans.size()
                                           : static_cast<std::size_t>(std::max(r.top, 0)));
  if (r.run) run_rows(reply, r, session);
  reply.picture = r.picture;
  if (r.run && !r.picture) reply.picture = "weir-out/sweep.svg";
  if (reply.picture) draw(reply, *reply.picture, session);
  if (r.pareto) draw_front(reply, *r.pareto, session);
  if (r.report) write_report(reply, r, session);
  if (r.plans) write_plans(reply, *r.plans, session);
  if (r.output) {
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
      reply = sweep(r, session, party);
    } else {
      // What it finds the leader has found; what comes after the search is the leader's alone.
      Session silent(session);
      silent.note = silent.log = [](const std::string&) {};
      silent.progress = [](const std::string&, int, int) {};
      SweepRequest own = r;
      own.explain = false;
      static_cast<void>(found(std::move(own), silent, party));
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
  return transport == TransportKind::threads ? sweep(r, session, {})
                                             : sweep_with_others(r, session);
}

std::string trust(const SweepReply& reply) {
  const std::string& device = reply.cluster.device.name;
  if (reply.costs.basis == Basis::builtin) return describe(builtin_accuracy(device), device);
  return fmt::format("{} costs of {}", to_string(reply.costs.basis), reply.costs.machine);
}

std::string to_text(const LeftOut& left_out) {
  return fmt::format("{} by {}, as {}", left_out.count, left_out.reason, left_out.nearest);
}

nlohmann::ordered_json to_json(const SweepReply& reply) {
  return reply.leads ? json_of(reply) : nlohmann::ordered_json();
}

}  // namespace weir::app

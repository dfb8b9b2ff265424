// Layouts of a program, whoever wrote it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "exec/device/cores.hpp"
#include "plan/layout/read.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/model/layout_processes.hpp"
#include "tools/report/layout_drawing.hpp"
#include "tools/report/picture_file.hpp"

namespace weir::app {
namespace {

// What of a plan a layout's prices depend on.
constexpr std::string_view kOfAPlan[] = {"seq-length", "dtype", "attention", "optimizer"};
bool is_of_prices(const Field& field) {
  return std::ranges::any_of(long_names(field), [](const std::string& name) {
    return std::ranges::find(kOfAPlan, name) != std::end(kOfAPlan);
  });
}

// What was given of a plan's options and is not used: what no price depends on (`weir model` has
// those of a training job, too), and what a layout file says itself.
void refuse_unused(const LayoutRequest& request, bool of_file, const Session& session) {
  PlanOptions options = request.plan;
  std::vector<std::string> sizes{"micro-batch-size"};
  for (const Field& field : weir::fields(options)) {
    const std::string name = long_names(field).front();
    if (!field.names.starts_with("-") || !session.given(name)) continue;
    if (!is_of_prices(field))
      throw UsageError(fmt::format("--{} does not change what a layout costs", name));
    if (name != "dtype") sizes.push_back(name);
  }
  for (const std::string& name : sizes) {
    if (of_file && session.given(name))
      throw UsageError(fmt::format("--{} is of a model: a layout file has its sizes", name));
  }
}

bool is_layout_file(const std::filesystem::path& file, const std::string& text) {
  return file.extension() != ".csv" && text_has_schema(text, "weir.layout/1");
}

LayoutResult of_einsums(const LayoutRequest& request, layout::LayoutFile file,
                        const Session& session) {
  if (request.networks.asked() || request.networks.cluster || request.svg || session.given("dtype"))
    throw UsageError(
        "a program of einsums has its layouts, no costs on a cluster and no picture: give it "
        "layers");
  LayoutsRequest einsums = request.layouts;
  einsums.file = request.plan.model;
  return {layouts(std::move(file), einsums, request.seed, session), {}};
}

constexpr std::size_t kMostRun = 5;  // of those that a search has found

// The fastest, whatever their memory, with nothing divided that no worker has (a run keeps no
// optimizer's numbers); where all are too many to compare one by one, those of the
// front, whose names say so: a layout that is faster than the second of them may be none of it.
std::vector<layout::NetworkLayout> found_to_run(const NetworksResult& result, int workers,
                                                const Session& session) {
  std::vector<layout::NetworkLayout> all;
  if (auto fastest = fastest_layouts(result.network, result.job, *result.cluster,
                                     {.devices = workers, .divided_state = false}, kMostRun)) {
    for (FoundLayout& one : *fastest) {
      all.push_back(std::move(one.layout));
      all.back().name = fmt::format("fastest {}", all.size());
    }
    return all;
  }
  session.note(
      "too many layouts to rank one by one: those run are of the front of time and memory");
  for (const FoundLayout& one : result.found->front) {
    if (all.size() < kMostRun) all.push_back(one.layout);
  }
  return all;
}

// Of a search the best; of rules on every mesh all that are legal; else each layout on every mesh
// of so many workers, or where its mesh was asked for on that.
std::vector<layout::NetworkLayout> layouts_to_run(const LayoutRequest& request,
                                                  const NetworksResult& result, int workers,
                                                  const Session& session) {
  if (result.found) return found_to_run(result, workers, session);
  std::vector<layout::NetworkLayout> all;
  if (result.shapes || !request.networks.mesh.empty()) return result.layouts;
  for (const layout::NetworkLayout& written : result.layouts) {
    for (layout::NetworkLayout& one : on_workers(written, workers)) {
      if (const auto why = illegal(result.network, one))
        throw InputError(request.plan.model.string(), "layouts",
                         fmt::format("{} on {} workers: {}", one.name, workers, *why));
      all.push_back(std::move(one));
    }
  }
  return all;
}

// How many processors the request has in mind.
int workers_of(const LayoutRequest& request, const Processes* others, const Session& session) {
  const NetworksRequest& networks = request.networks;
  if (others != nullptr && session.given("workers"))
    throw UsageError("--workers is of threads: mpirun has started the processes");
  std::int64_t workers = request.layouts.workers == 0 ? available_cores() : request.layouts.workers;
  std::optional<std::int64_t> asked;
  if (networks.devices) asked = *networks.devices;
  if (!networks.mesh.empty()) {
    asked = 1;
    try {
      for (const layout::MeshDimension& m : layout::parse_mesh(networks.mesh)) *asked *= m.size;
    } catch (const std::invalid_argument& why) {
      throw UsageError(fmt::format("--mesh: {}", why.what()));
    }
  }
  if (others != nullptr && asked && *asked != others->count()) {
    throw UsageError(fmt::format("the mesh has {} processors, and mpirun started {} processes",
                                 *asked, others->count()));
  }
  if (others != nullptr) return others->count();
  if (asked && session.given("workers") && *asked != workers)
    throw UsageError(fmt::format("--workers {}: the mesh has {} processors", workers, *asked));
  workers = asked.value_or(workers);
  if (static_cast<double>(workers) > kWorkers.second)
    throw UsageError(fmt::format("--run has at most {:.0f} workers", kWorkers.second));
  return static_cast<int>(workers);
}

// Priced by what this machine's cores do, and run on them: by threads, or by `others`.
template <class Networks>
NetworksResult run_on_cores(const LayoutRequest& request, Processes* others, const Session& session,
                            const Networks& networks) {
  if (request.networks.cluster)
    throw UsageError("--run is priced by the rates of this machine's cores: drop --cluster");
  if (session.given("dtype") && dtype_of(request.plan) != Dtype::fp32)
    throw UsageError("--run computes in fp32");
  if (!request.networks.pipeline.stages.empty())
    throw UsageError("--stages is forecast, not run: drop one of it and --run");
  LayoutRequest measured = request;
  const int workers = workers_of(request, others, session);
  measured.networks.measured =
      others == nullptr ? measured_cores(workers) : measured_cores(*others);
  NetworksResult result = networks(measured);
  result.layouts = layouts_to_run(request, result, workers, session);
  if (result.layouts.empty()) throw UsageError("none of these layouts is legal: nothing to run");
  if (others != nullptr)
    require_same_layouts(result, request.layouts.rounds, request.seed, *others);
  result.run =
      run_networks(result.network, result.layouts, result.job, *result.cluster,
                   {.file = request.plan.model.string(),
                    .workers = workers,
                    .rounds = request.layouts.rounds,
                    .seed = request.seed,
                    .progress = [&session](int done, int of) { session.progress("run", done, of); },
                    .processes = others});
  if (result.run->oversubscribed && others != nullptr)
    session.note(fmt::format("{} processes on fewer cores: oversubscribed", workers));
  else if (result.run->oversubscribed)
    session.note(fmt::format("{} workers on {} cores: oversubscribed", workers, available_cores()));
  return result;
}

void draw(const LayoutRequest& request, const NetworksResult& result, const Session& session) {
  if (!request.svg) return;
  save_drawing(draw_layouts(result.network, result.layouts, result.job.dtype),
               layouts_csv(result.network, result.layouts), session.output(*request.svg));
}

}  // namespace

Fields fields(LayoutRequest& request) {
  Fields all{
      {"program",
       &request.plan.model,
       "A layout file (weir.layout/1), or a model: config.json, its folder or its name in the "
       "hub's cache, or a layer list",
       {.required = true, .model = true}}};
  for (Field& field : weir::fields(request.plan)) {
    if (is_of_prices(field)) all.push_back(std::move(field));
  }
  all.push_back({"-b,--micro-batch-size",
                 &request.micro_batch_size,
                 "Of a model: samples of a micro-batch, of all devices",
                 {.range = {{1, 1 << 20}}}});
  append(all, fields(request.networks));
  append(all, run_fields(request.layouts));
  all.push_back({"--svg,--pdf",
                 &request.svg,
                 "Draw what each device holds of each tensor and sends (first 16 devices)",
                 {.writes = Writes::file, .with_it = &data_file}});
  append(all, fields(request.processes));
  all.push_back(seed_field(request.seed));
  return all;
}

namespace {

LayoutResult use(LayoutRequest request, Processes* others, const Session& session) {
  const LayoutsRequest run = request.layouts;
  // Once, for all that looks at it: a pipe has it once.
  request.plan.model_text = read_text_file(request.plan.model);
  const std::string& text = *request.plan.model_text;
  const bool of_file = is_layout_file(request.plan.model, text);
  refuse_unused(request, of_file, session);
  if (!of_file) {
    const auto of_model = [&](const LayoutRequest& r) {
      return networks(r.networks, r.plan, load_model(r.plan), r.micro_batch_size, r.seed, session);
    };
    LayoutResult result{
        {}, run.run ? run_on_cores(request, others, session, of_model) : of_model(request)};
    draw(request, *result.networks, session);
    return result;
  }
  layout::LayoutFile file = layout::parse_layouts(text, request.plan.model.string());
  if (!file.network && others != nullptr)
    throw UsageError("processes run networks: a program of einsums alone is run by threads");
  if (!file.network) return of_einsums(request, std::move(file), session);
  std::optional<Dtype> dtype;
  if (session.given("dtype")) dtype = dtype_of(request.plan);
  const auto of_network = [&](const LayoutRequest& r) {
    return networks(r.networks, *file.network, file.network_layouts, dtype, session);
  };
  LayoutResult result{
      {}, run.run ? run_on_cores(request, others, session, of_network) : of_network(request)};
  draw(request, *result.networks, session);
  return result;
}

// One of several processes that run together: the leader has the result, and writes.
LayoutResult use_with_others(LayoutRequest request, const Session& session) {
  LayoutResult result;
  by_processes(request.processes, session, [&](Processes& processes, const Session& own) {
    const bool leads = processes.index() == 0;
    if (!leads) {
      request.svg.reset();
      request.networks.out.reset();
    }
    result = use(request, &processes, own);
    result.leads = leads;
  });
  return result;
}

}  // namespace

LayoutResult layout_use(const LayoutRequest& request, const Session& session) {
  if (!request.layouts.run) {
    if (session.given("workers") || session.given("rounds"))
      throw UsageError("--workers and --rounds are of --run");
    if (session.given("transport") || session.given("patience"))
      throw UsageError("--transport and --patience are of --run");
    return use(request, nullptr, session);
  }
  const TransportKind transport = choose_transport(request.processes);
  if (transport == TransportKind::nccl)
    throw UsageError("--transport nccl: expected threads or mpi, layouts run on cores");
  if (transport != TransportKind::threads) return use_with_others(request, session);
  // Threads wait for nobody who could be lost.
  if (session.given("patience")) throw UsageError("--patience is of processes: --transport mpi");
  return use(request, nullptr, session);
}

nlohmann::ordered_json to_json(const LayoutResult& result) {
  if (!result.leads) return {};
  return result.layouts ? to_json(*result.layouts) : to_json(*result.networks);
}

}  // namespace weir::app

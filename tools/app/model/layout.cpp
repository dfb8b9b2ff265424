// Layouts of a program, whoever wrote it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

// What of a plan a layout's prices depend on.
constexpr std::string_view kOfAPlan[] = {"seq-length", "dtype", "attention", "optimizer"};
// What a layout file says itself.
constexpr const char* kOfAModel[] = {"seq-length", "attention", "optimizer", "micro-batch-size"};

bool is_layout_file(const std::filesystem::path& file) {
  if (file.extension() == ".csv") return false;
  const Json json = Json::parse(read_text_file(file), nullptr, false);
  return json.is_object() && json.contains("schema") && json["schema"] == "weir.layout/1";
}

LayoutResult of_einsums(const LayoutRequest& request, LayoutsRequest layouts_request,
                        const Session& session) {
  if (request.networks.asked() || request.networks.cluster || session.given("dtype"))
    throw UsageError(
        "a program of einsums has its layouts, and no costs on a cluster: give it layers");
  return {layouts(layouts_request, request.seed, session), {}};
}

}  // namespace

Fields fields(LayoutRequest& request) {
  Fields all{{"program",
              &request.plan.model,
              "A layout file (weir.layout/1), or a model: config.json or a layer list",
              {.required = true}}};
  for (Field& field : weir::fields(request.plan)) {
    const auto names = long_names(field);
    if (std::ranges::any_of(names, [](const std::string& name) {
          return std::ranges::find(kOfAPlan, name) != std::end(kOfAPlan);
        }))
      all.push_back(std::move(field));
  }
  all.push_back({"-b,--micro-batch-size",
                 &request.micro_batch_size,
                 "Of a model: samples of a micro-batch, of all devices",
                 {.range = {{1, 1 << 20}}}});
  append(all, fields(request.networks));
  append(all, run_fields(request.layouts));
  all.push_back(seed_field(request.seed));
  return all;
}

LayoutResult layout_use(const LayoutRequest& request, const Session& session) {
  const LayoutsRequest& run = request.layouts;
  if (!run.run && (session.given("workers") || session.given("rounds")))
    throw UsageError("--workers and --rounds are of --run");
  if (!is_layout_file(request.plan.model)) {
    if (run.run) throw UsageError("--run runs the einsums of a layout file");
    return {{},
            networks(request.networks, request.plan, load_model(request.plan),
                     request.micro_batch_size, request.seed, session)};
  }
  for (const char* name : kOfAModel) {
    if (session.given(name))
      throw UsageError(fmt::format("--{} is of a model: a layout file has its sizes", name));
  }
  layout::LayoutFile file = layout::load_layouts(request.plan.model);
  LayoutsRequest of_file = run;
  of_file.file = request.plan.model;
  if (!file.network) return of_einsums(request, std::move(of_file), session);
  if (run.run)
    throw InputError(request.plan.model.string(), "layers",
                     "a network is priced, not run: drop --run");
  std::optional<Dtype> dtype;
  if (session.given("dtype")) dtype = dtype_of(request.plan);
  return {{}, networks(request.networks, *file.network, file.network_layouts, dtype, session)};
}

nlohmann::ordered_json to_json(const LayoutResult& result) {
  return result.layouts ? to_json(*result.layouts) : to_json(*result.networks);
}

}  // namespace weir::app

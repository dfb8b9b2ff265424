// Writes the files by which other tools train a plan.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/export.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using Exporter = ExportedJob (*)(const ResolvedPlan&, const ExportOptions&);
const std::map<std::string, Exporter> kExporters{{"torchtitan", export_torchtitan},
                                                 {"torch", export_torch},
                                                 {"megatron", export_megatron},
                                                 {"deepspeed", export_deepspeed}};

}  // namespace

Fields fields(ExportRequest& r) {
  return {{"plan", &r.plan, "Plan file", {.required = true}},
          {"--to",
           &r.to,
           "torchtitan, torch, megatron or deepspeed",
           {.choices = {"torchtitan", "torch", "megatron", "deepspeed"}, .required = true}},
          {"-o,--output", &r.output, "Folder of the files", {.writes = Writes::folder}},
          {"--gpus-per-node",
           &r.gpus_per_node,
           "At most so many devices a node in the launch line",
           {.range = kGpusPerNode}}};
}

ExportResult export_plan(const ExportRequest& r, const Session& session) {
  const PlacedPlan plan = load(r.plan, session);
  const ExportedJob job = kExporters.at(r.to)(
      plan.loaded, {.gpus_per_node = r.gpus_per_node,
                    .model_config = read_text_file(plan.folder / plan.loaded.plan.model_path)});
  ExportResult result{.to = r.to, .launch = job.launch, .not_carried = job.not_carried};
  for (const ExportedFile& file : job.files)
    result.files.push_back(session.output(r.output / file.name));
  for (const ExportedFile& file : job.files) write_file_atomically(r.output / file.name, file.text);
  return result;
}

nlohmann::ordered_json to_json(const std::vector<Remark>& remarks) {
  auto json = nlohmann::ordered_json::array();
  for (const Remark& remark : remarks)
    json.push_back({{"name", remark.name}, {"text", remark.text}});
  return json;
}

nlohmann::ordered_json to_json(const ExportResult& result) {
  nlohmann::ordered_json json{{"schema", "weir.export/1"},
                              {"to", result.to},
                              {"files", nlohmann::ordered_json::array()},
                              {"launch", result.launch}};
  for (const auto& file : result.files) json["files"].push_back(file.string());
  json["not_carried"] = to_json(result.not_carried);
  return json;
}

}  // namespace weir::app

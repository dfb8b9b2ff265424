// Writes the files by which other tools train a plan.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/export.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/import.hpp"

namespace weir::app {
namespace {

using Exporter = ExportedJob (*)(const ResolvedPlan&, const ExportOptions&);
const std::map<std::string, Exporter> kExporters{{"torchtitan", export_torchtitan_registry},
                                                 {"torch", export_torch},
                                                 {"megatron", export_megatron},
                                                 {"deepspeed", export_deepspeed}};

// A script that does not say how many devices it runs on, or on as many as it cannot, is taken to
// run on the plan's.
Patch patch_of(const ResolvedPlan& plan, const std::filesystem::path& file) {
  const std::string text = read_job_text(file);
  JobOptions options{.environment = environment(), .files = files_beside(file)};
  try {
    return patch_megatron(plan, text, file.string(), options);
  } catch (const DeviceCountError&) {
    options.gpus = plan.plan.devices();
    return patch_megatron(plan, text, file.string(), options);
  }
}

nlohmann::ordered_json patch_json(const Patch& patch) {
  using Json = nlohmann::ordered_json;
  const auto text = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json changes = Json::array();
  for (const ArgumentChange& change : patch.changes) {
    changes.push_back(
        {{"name", change.name}, {"before", text(change.before)}, {"after", text(change.after)}});
  }
  return {{"schema", "weir.patch/1"},
          {"changes", std::move(changes)},
          {"devices_before", text(patch.devices_before)},
          {"devices", patch.devices},
          {"remarks", to_json(patch.remarks)}};
}

}  // namespace

Fields fields(ExportRequest& r) {
  return {{"plan", &r.plan, "Plan file", {.required = true}},
          {"--to",
           &r.to,
           "torchtitan, torch, megatron or deepspeed",
           {.choices = {"torchtitan", "torch", "megatron", "deepspeed"}}},
          {"--patch", &r.patch,
           "Your own Megatron script: the arguments to change in it, the others stay; with --to "
           "megatron the changed one is written, with all of its arguments"},
          {"-o,--output", &r.output, "Folder of the files", {.writes = Writes::folder}},
          {"--gpus-per-node",
           &r.gpus_per_node,
           "At most so many devices a node in the launch line",
           {.range = kGpusPerNode}},
          {"--torchtitan-version",
           &r.torchtitan_version,
           "main, whose Python registry is written as of August 2026, or 0.2, whose TOML is",
           {.choices = {"main", "0.2"}}}};
}

ExportResult export_plan(const ExportRequest& r, const Session& session) {
  if (r.to.empty() && !r.patch) throw UsageError("expected --to TOOL or --patch SCRIPT");
  const PlacedPlan plan = load(r.plan, session);
  if (r.patch && r.to.empty()) return {.patch = patch_of(plan.loaded, *r.patch)};
  if (r.patch && r.to != "megatron")
    throw UsageError("--patch is of a Megatron script: with --to megatron alone");
  if (r.to != "torchtitan" && session.given("torchtitan-version"))
    throw UsageError("--torchtitan-version needs --to torchtitan");
  const Exporter exporter = r.to == "torchtitan" && r.torchtitan_version == "0.2"
                                ? export_torchtitan_toml
                                : kExporters.at(r.to);
  const ExportOptions options{
      .gpus_per_node = r.gpus_per_node,
      .model_config = read_text_file(plan.folder / plan.loaded.plan.model_path)};
  const ExportedJob job =
      r.patch ? patched_megatron(patch_of(plan.loaded, *r.patch), plan.loaded.plan, options)
              : exporter(plan.loaded, options);
  ExportResult result{.to = r.to, .launch = job.launch, .not_carried = job.not_carried};
  // What nobody chose trains all the same: it is said.
  if (const Optimizer& o = plan.loaded.plan.optimizer; o == Optimizer{} && !r.patch) {
    result.not_carried.push_back(
        {"optimizer", fmt::format("none was chosen: the files have Weir's, {} at a learning rate "
                                  "of {}, betas {} and {}, no warm-up, decay or clipping",
                                  to_string(o.kind), o.learning_rate, o.beta1, o.beta2)});
  }
  if (const std::string& note = plan.loaded.plan.note;
      !r.patch && note.find(kLeftOut) != note.npos) {
    result.not_carried.push_back({"note", note});
  }
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
  if (result.patch) return patch_json(*result.patch);
  nlohmann::ordered_json json{{"schema", "weir.export/1"},
                              {"to", result.to},
                              {"files", nlohmann::ordered_json::array()},
                              {"launch", result.launch}};
  for (const auto& file : result.files) json["files"].push_back(file.string());
  json["not_carried"] = to_json(result.not_carried);
  return json;
}

}  // namespace weir::app

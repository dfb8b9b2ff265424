// Writes the files by which other tools train a plan.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/jobs/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "plan/layout/read.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/shared/named_layout.hpp"
#include "tools/jobs/torch/dtensor.hpp"

namespace weir::app {
namespace {

using Exporter = ExportedJob (*)(const ResolvedPlan&, const ExportOptions&);
const std::map<std::string, Exporter> kExporters{{"torchtitan", export_torchtitan_registry},
                                                 {"torch", export_torch},
                                                 {"megatron", export_megatron},
                                                 {"deepspeed", export_deepspeed}};

// A script that does not say how many devices it runs on, or on as many as it cannot, is taken to
// run on the plan's.
Patch patch_of(const ResolvedPlan& plan, const std::filesystem::path& file,
               const Allowed& allowed) {
  PatchedScript script{.text = read_job_text(file),
                       .file = file.string(),
                       .options = {.environment = environment(), .files = files_beside(file)},
                       .allowed = allowed};
  try {
    return patch_megatron(plan, script);
  } catch (const DeviceCountError&) {
    script.options.gpus = plan.plan.devices();
    return patch_megatron(plan, script);
  }
}

// The standard input has no name of its own.
std::string edited_name(const std::filesystem::path& script) {
  const std::string name = script.filename().string();
  return name.empty() || name == "-" ? "megatron.sh" : name;
}

using Json = nlohmann::ordered_json;

Json text_or_null(const auto& value) { return value ? Json(*value) : Json(nullptr); }

Json changes_json(const std::vector<ArgumentChange>& changes) {
  Json json = Json::array();
  for (const ArgumentChange& change : changes) {
    json.push_back({{"name", change.name},
                    {"before", text_or_null(change.before)},
                    {"after", text_or_null(change.after)}});
  }
  return json;
}

Json patch_json(const Patch& patch) {
  return {{"schema", "weir.patch/1"},
          {"changes", changes_json(patch.changes)},
          {"devices_before", text_or_null(patch.devices_before)},
          {"devices", patch.devices},
          {"difference", patch.difference},
          {"not_edited", to_json(patch.not_edited)},
          {"remarks", to_json(patch.remarks)}};
}

// All outputs are checked before the first is written.
ExportResult write_files(const ExportRequest& r, const ExportedJob& job, const Session& session) {
  ExportResult result{.to = r.to, .launch = job.launch, .not_carried = job.not_carried};
  for (const ExportedFile& file : job.files)
    result.files.push_back(session.output(r.output / file.name));
  for (const ExportedFile& file : job.files) write_file_atomically(r.output / file.name, file.text);
  return result;
}

// No plan: a network under one of its file's layouts.
ExportResult export_layout(const ExportRequest& r, const Session& session) {
  const auto* file = std::get_if<std::filesystem::path>(&r.plan);
  if (file == nullptr || r.patch)
    throw UsageError("--to dtensor takes a layout file, as weir layout --program writes one");
  if (r.fork || r.allow_other_schedule) {
    throw UsageError(
        fmt::format("{} is of a plan's schedule: a layout file, as --to dtensor takes "
                    "one, has none",
                    r.fork ? "--fork" : "--allow-other-schedule"));
  }
  if (session.given("torchtitan-version"))
    throw UsageError("--torchtitan-version needs --to torchtitan");
  const layout::LayoutFile loaded = layout::load_layouts(*file);
  if (!loaded.network)
    throw InputError(file->string(), "layers", "expected a network: einsums have no modules");
  const auto& layout = named_layout(loaded, r.layout_name, *file);
  return write_files(
      r,
      export_dtensor(*loaded.network, layout, file->string(), {.gpus_per_node = r.gpus_per_node}),
      session);
}

}  // namespace

Fields fields(ExportRequest& r) {
  return {
      {"plan", &r.plan, "Plan file, or a layout file (weir.layout/1)", {.required = true}},
      {"--to",
       &r.to,
       "torchtitan, torch, megatron or deepspeed; of a layout file dtensor, PyTorch's placements",
       {.choices = {"torchtitan", "torch", "megatron", "deepspeed", "dtensor"}}},
      {"--layout-name", &r.layout_name,
       "With --to dtensor: which of the file's (default: the first)"},
      {"--patch", &r.patch,
       "Your own Megatron script: what to change in it, as a diff of its text; with --to "
       "megatron the edited script is written"},
      {"--allow-other-schedule", &r.allow_other_schedule,
       "Write a plan whose schedule the tool has not: its own runs, and is named"},
      {"--fork", &r.fork,
       "For the zero-bubble fork of Megatron-LM: zb-h1, zb-h2, zb-v, v-half and v-min too"},
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
  if (r.to == "dtensor") return export_layout(r, session);
  if (!r.layout_name.empty()) throw UsageError("--layout-name is of --to dtensor");
  const PlacedPlan plan = load(r.plan, session);
  if (plan.loaded.schedule.shape.shards() > 0) {
    throw InputError(name_of(r.plan), "schedule",
                     fmt::format("{} divides the vocabulary over the ranks: no job that is written "
                                 "here does (sail-sg/VocabularyParallelism, a fork of Megatron-LM, "
                                 "has --enable-vocab-parallel)",
                                 plan.loaded.schedule.name));
  }
  const Allowed allowed{.other_schedule = r.allow_other_schedule, .fork = r.fork};
  if (r.fork && !r.to.empty() && r.to != "megatron")
    throw UsageError("--fork is of Megatron-LM: with --to megatron or --patch alone");
  // A diff alone goes to stdout: nothing is written.
  if (r.patch && r.to.empty()) return {.patch = patch_of(plan.loaded, *r.patch, allowed)};
  if (r.patch && r.to != "megatron")
    throw UsageError("--patch is of a Megatron script: with --to megatron alone");
  if (r.to != "torchtitan" && session.given("torchtitan-version"))
    throw UsageError("--torchtitan-version needs --to torchtitan");
  const Exporter exporter = r.to == "torchtitan" && r.torchtitan_version == "0.2"
                                ? export_torchtitan_toml
                                : kExporters.at(r.to);
  const ExportOptions options{
      .gpus_per_node = r.gpus_per_node,
      .allowed = allowed,
      .model_config = read_text_file(plan.folder / plan.loaded.plan.model_path)};
  // Own script first: a job that came from one is exported as a change of it.
  const std::optional<Patch> patch = r.patch ? patch_of(plan.loaded, *r.patch, allowed)
                                     : r.to == "megatron"
                                         ? patch_own_megatron_job(plan.loaded, allowed)
                                         : std::nullopt;
  const ExportedJob job = r.patch ? edited_megatron(*patch, edited_name(*r.patch))
                          : patch ? patched_megatron(*patch, plan.loaded, options)
                                  : exporter(plan.loaded, options);
  ExportResult result = write_files(r, job, session);
  if (patch) result.changes = patch->changes;
  if (plan.loaded.plan.skips == SkipTransport::direct)
    result.not_carried.push_back({"skips", "direct: stages hand on what they do not take"});
  // What nobody chose trains all the same: it is said.
  const Optimizer& o = plan.loaded.plan.optimizer;
  if (o == Optimizer{} && !job.whole_job) {
    result.not_carried.push_back(
        {"optimizer", fmt::format("none was chosen: the files have Weir's, {} at a learning rate "
                                  "of {}, betas {} and {}, no warm-up, decay or clipping",
                                  to_string(o.kind), o.learning_rate, o.beta1, o.beta2)});
  }
  if (const SourceJob& source = plan.loaded.plan.job; !job.whole_job && !source.left_out.empty()) {
    result.not_carried.push_back(
        {"job", fmt::format("of the {} job that the plan came from these are not in the files: {}",
                            source.tool, fmt::join(source.left_out, " "))});
  }
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
  json["changes"] = changes_json(result.changes);
  json["not_carried"] = to_json(result.not_carried);
  return json;
}

}  // namespace weir::app

// Keeps what was pasted, tells what it is by its words, and reads it as `weir plan` and `weir
// model` do.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/pasted_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "plan/job/summary.hpp"
#include "plan/model/readers/foreign_job.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/model/model.hpp"
#include "tools/app/plan/plan.hpp"
#include "tools/serve/asked.hpp"
#include "tools/serve/body_fields.hpp"

namespace weir {
namespace {

constexpr std::size_t kMostFiles = 8;

enum class Kind : std::uint8_t { plan, job, model };

struct Pasted {
  std::string name, text;
  Kind kind = Kind::job;
  std::string from;  // of a job: the importer's word
};

// What nobody claims is read as Megatron's: pasted arguments and its dump have no mark.
Pasted told_apart(std::string name, std::string text) {
  Pasted one{std::move(name), std::move(text)};
  const Json json = Json::parse(one.text, nullptr, /*allow_exceptions=*/false);
  const ForeignTool tool = tool_of_text(one.text);
  if (has_schema(json, "weir.plan/1")) {
    one.kind = Kind::plan;
  } else if ((tool.name.empty() && json.is_object()) || one.name.ends_with(".csv")) {
    one.kind = Kind::model;
  } else if (!tool.name.empty() && tool.reader.empty()) {
    throw InputError(one.name, "", fmt::format("is a job of {}, which is not read", tool.name));
  } else {
    one.from = tool.name.empty() ? "megatron" : std::string(tool.reader);
  }
  return one;
}

std::vector<Pasted> files_of(const Json& body) {
  JsonObject request(body, kRequest, "");
  std::vector<Pasted> all;
  std::set<std::string> names;
  for (JsonObject& file : request.objects("files")) {
    all.push_back(told_apart(kept_name(file.text("name")), file.text("text")));
    file.finish();
    if (!names.insert(all.back().name).second)
      throw InputError(kRequest, "files", all.back().name + " is there twice");
  }
  if (all.empty() || all.size() > kMostFiles)
    throw InputError(kRequest, "files", fmt::format("expected 1 to {} files", kMostFiles));
  return all;
}

// The one that the others go with: a plan's model, a job's config.json.
const Pasted& main_of(const std::vector<Pasted>& files) {
  return *std::ranges::min_element(files, {}, &Pasted::kind);
}

const std::vector<std::string_view> kBesideJob{
    "gpus", "cluster", "dtype",      "micro-batch-size", "microbatches", "global-batch-size",
    "dp",   "config",  "seq-length", "vocab-size",       "attention",    "from"};

Json without_files(Json body) {
  body.erase("files");
  return body;
}

// As `weir plan JOB --from TOOL -o plan.json`.
Json imported(const std::vector<Pasted>& files, const std::filesystem::path& folder, Json body) {
  const Pasted& job = main_of(files);
  const std::string plan = folder / "plan.json";
  body["model"] = (folder / job.name).string();
  body["output"] = plan;
  if (const auto from = body.find("from"); from == body.end() || from->is_null() || *from == "")
    body["from"] = job.from;
  // DeepSpeed's file and torchtitan's registry leave the model to another.
  for (const Pasted& other : files) {
    if (other.kind == Kind::model) body["job-model"] = (folder / other.name).string();
  }
  std::vector<std::string_view> allowed = kBesideJob;
  allowed.insert(allowed.end(), {"model", "output", "job-model"});
  const Asked asked(app::kPlan, allowed, body);
  const app::PlanResult result = asked.run();
  Json told = asked.envelope(result, to_json(result));
  told.update({{"job", folder.string()},
               {"kind", "plan"},
               {"plan", plan},
               {"summary", summary(result.plan.loaded.plan)}});
  return told;
}

Json given_plan(const Pasted& plan, const std::filesystem::path& folder) {
  Json notes = Json::array();
  app::Session session;
  session.note = [&notes](const std::string& line) { notes.push_back(line); };
  const auto file = folder / plan.name;
  // Its model is named in it: one that is not there is said now, and not with the first forecast.
  const app::PlacedPlan placed = app::load(file, session);
  return {{"job", folder.string()},
          {"kind", "plan"},
          {"plan", file.string()},
          {"model", (folder / placed.loaded.plan.model_path).lexically_normal().string()},
          {"summary", summary(placed.loaded.plan)},
          {"command", ""},
          {"result", nullptr},
          {"notes", notes}};
}

Json given_model(const Pasted& model, const std::filesystem::path& folder, const Json& body) {
  // The machine is said on the same page: a model has none.
  Json its = body;
  for (const std::string_view other : kBesideJob) {
    if (other != "seq-length" && other != "dtype") its.erase(std::string(other));
  }
  its["model"] = (folder / model.name).string();
  const Asked asked(app::kModel, {"model", "seq-length", "dtype"}, its);
  const app::ModelResult result = asked.run();
  Json told = asked.envelope(result, to_json(result));
  told.update({{"job", folder.string()}, {"kind", "model"}, {"model", its["model"]}});
  return told;
}

}  // namespace

Answer job_answer(Workplace& workplace, const Json& body) {
  const std::vector<Pasted> files = files_of(body);
  const Json options = without_files(body);
  // What a plan or a model has no use for is checked all the same.
  app::PlanRequest beside;
  static_cast<void>(fill(app::fields(beside), kBesideJob, options));
  const auto lock = turn(workplace);
  return in_new_folder(workplace, [&](const std::filesystem::path& folder) -> Answer {
    for (const Pasted& file : files) write_file_atomically(folder / file.name, file.text);
    const Pasted& main = main_of(files);
    switch (main.kind) {
      case Kind::plan:
        return {.body = given_plan(main, folder).dump()};
      case Kind::job:
        return {.body = imported(files, folder, options).dump()};
      default:
        return {.body = given_model(main, folder, options).dump()};
    }
  });
}

Answer file_answer(Workplace& workplace, const Json& body) {
  JsonObject request(body, kRequest, "");
  const std::filesystem::path job = path_within(request.text("job"), "job");
  const std::string name = kept_name(request.text("name")), text = request.text("text");
  request.finish();
  if (job.parent_path() != workplace.folder || !std::filesystem::is_directory(job))
    throw InputError(kRequest, "job", "expected the folder of a job");
  // A plan that was read is not written over by a log of its name.
  for (int number = 1;; ++number) {
    const auto file = job / (number == 1 ? name : fmt::format("{}-{}", number, name));
    if (std::filesystem::exists(file)) continue;
    write_file_atomically(file, text);
    const Json answer{{"result", {{"file", file.string()}}}, {"notes", Json::array()}};
    return {.body = answer.dump()};
  }
}

}  // namespace weir

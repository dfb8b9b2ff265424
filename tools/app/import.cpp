// Jobs of other tools as plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/import.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "plan/import/megatron.hpp"
#include "plan/import/torchtitan.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

// The named model must be the one that the arguments describe.
void check_same(const Model& named, const Model& described, const std::string& file,
                const std::filesystem::path& model) {
  const auto a = as_decoder(named), b = as_decoder(described);
  const auto differ = [&](const char* what, std::int64_t x, std::int64_t y) {
    if (x == y) return;
    throw InputError(file, what, fmt::format("{} here, {} in {}", y, x, model.string()));
  };
  if (!a || !b)
    throw InputError(model.string(), "", "expected an embedding, equal blocks, a norm and a head");
  differ("num-layers", a->blocks, b->blocks);
  differ("hidden-size", a->block.hidden, b->block.hidden);
  differ("num-attention-heads", a->block.heads, b->block.heads);
  differ("ffn-hidden-size", a->block.ffn, b->block.ffn);
}

Job read_job(const ImportRequest& r, const ImportedJob& j, const Model* named) {
  const JobOptions options{.gpus = r.gpus, .dp = j.dp, .vocabulary = r.vocabulary, .model = named};
  const std::string text = read_text_file(j.file), file = j.file.string();
  if (r.from == "torchtitan") return read_torchtitan_job(text, file, options);
  Job job = read_megatron_job(text, file, options);
  if (named != nullptr) check_same(*named, job.model, file, *r.model);
  return job;
}

// A file that is gone again when nothing took it over.
class Draft {
 public:
  Draft(std::filesystem::path file, const std::string& text) : file_(std::move(file)) {
    write_file_atomically(file_, text);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    std::error_code error;
    std::filesystem::remove(file_, error);
  }

 private:
  std::filesystem::path file_;
};

// The model beside the plan. Written under another name first: a refused plan leaves an earlier
// model as it was.
void save_with_model(Plan& plan, const Model& model, const std::filesystem::path& output,
                     const std::filesystem::path& model_file) {
  const std::string text = to_layer_list(model);
  plan.model_sha256 = sha256_hex(text);
  const auto folder = std::filesystem::absolute(output).parent_path();
  {
    const std::string name = fmt::format(".{}.{}.json", model_file.filename().string(), ::getpid());
    const Draft draft(folder / name, text);
    plan.model_path = name;
    static_cast<void>(resolve(plan, folder));
  }
  write_file_atomically(folder / model_file.filename(), text);
  plan.model_path = model_file.filename().string();
  save_plan(plan, output);
}

}  // namespace

Imported import_job(const ImportRequest& r, const ImportedJob& j, const Session& session) {
  if (!j.output) throw UsageError("--from needs -o PLAN: its model is written beside it");
  const std::filesystem::path output = session.output(*j.output);
  std::optional<Model> named;
  if (r.model) named = load_model(*r.model);
  Job job = read_job(r, j, named ? &*named : nullptr);
  Plan& plan = job.plan;
  plan.slots = j.slots.value_or(plan.slots);
  const auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
  const auto* schedule = std::get_if<Schedule>(&made);
  if (!j.slots && schedule != nullptr) plan.slots = fewest_slots(*schedule, plan.slots);
  plan.note = j.note.empty() ? fmt::format("from the {} job {}", r.from, j.file.filename().string())
                             : j.note;
  const auto folder = std::filesystem::absolute(output).parent_path();
  if (plan.schedule.ends_with(".csv")) {
    const auto beside = std::filesystem::absolute(j.file).parent_path() / plan.schedule;
    plan.schedule = std::filesystem::proximate(beside, folder).string();
  }
  std::filesystem::path model = output;
  if (named) {
    model = *r.model;
    plan.model_path = std::filesystem::proximate(std::filesystem::absolute(model), folder).string();
    plan.model_sha256 = sha256_hex(read_text_file(model));
    static_cast<void>(resolve(plan, folder));
    save_plan(plan, output);
  } else {
    model.replace_extension(".model.json");
    if (job.model.name.empty()) job.model.name = j.file.stem().string();
    save_with_model(plan, job.model, output, session.output(model));
  }
  for (const Remark& remark : job.remarks)
    session.note(fmt::format("{}: {}: {}", j.file.string(), remark.name, remark.text));
  return {output, model, job.remarks};
}

}  // namespace weir::app

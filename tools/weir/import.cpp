// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/import.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "plan/import/megatron.hpp"
#include "plan/import/torchtitan.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/weir/options.hpp"

namespace weir {
namespace {

// The named model must be the one that the arguments describe.
void check_same(const Model& named, const Model& described, const ImportOptions& o) {
  const auto a = as_decoder(named), b = as_decoder(described);
  const auto differ = [&](const char* what, std::int64_t x, std::int64_t y) {
    if (x == y) return;
    throw InputError(o.file.string(), what,
                     fmt::format("{} here, {} in {}", y, x, o.model->string()));
  };
  if (!a || !b)
    throw InputError(o.model->string(), "",
                     "expected an embedding, equal blocks, a norm and a head");
  differ("num-layers", a->blocks, b->blocks);
  differ("hidden-size", a->block.hidden, b->block.hidden);
  differ("num-attention-heads", a->block.heads, b->block.heads);
  differ("ffn-hidden-size", a->block.ffn, b->block.ffn);
}

Job read_job(const ImportOptions& o, const Model* named) {
  const JobOptions options{.gpus = o.gpus, .dp = o.dp, .vocabulary = o.vocabulary, .model = named};
  const std::string text = read_text_file(o.file), file = o.file.string();
  if (o.from == "torchtitan") return read_torchtitan_job(text, file, options);
  Job job = read_megatron_job(text, file, options);
  if (named != nullptr) check_same(*named, job.model, o);
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

void report(const ImportOptions& o, const Job& job, const std::filesystem::path& model,
            const GlobalOptions& global) {
  for (const Remark& remark : job.remarks) {
    fmt::print(stderr, "weir: {}: {}: {}\n", o.file.string(), remark.name, remark.text);
  }
  if (!global.json) {
    fmt::print("{}: {}\n{}\n", o.output.string(), summary(job.plan), model.string());
    return;
  }
  Json json{{"schema", "weir.import/1"}, {"plan", o.output.string()}, {"model", model.string()}};
  json["remarks"] = Json::array();
  for (const Remark& remark : job.remarks)
    json["remarks"].push_back({{"name", remark.name}, {"text", remark.text}});
  fmt::print("{}\n", json.dump(1));
}

}  // namespace

void import_plan(const ImportOptions& o, const GlobalOptions& global) {
  if (o.output.empty()) throw UsageError("--from needs -o PLAN: its model is written beside it");
  std::optional<Model> named;
  if (o.model) named = load_model(*o.model);
  Job job = read_job(o, named ? &*named : nullptr);
  Plan& plan = job.plan;
  plan.slots = o.slots.value_or(plan.slots);
  const auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
  const auto* schedule = std::get_if<Schedule>(&made);
  if (!o.slots && schedule != nullptr) plan.slots = fewest_slots(*schedule, plan.slots);
  plan.note = o.note.empty() ? fmt::format("from the {} job {}", o.from, o.file.filename().string())
                             : o.note;
  const auto folder = std::filesystem::absolute(o.output).parent_path();
  if (plan.schedule.ends_with(".csv")) {
    const auto beside = std::filesystem::absolute(o.file).parent_path() / plan.schedule;
    plan.schedule = std::filesystem::proximate(beside, folder).string();
  }
  std::filesystem::path model = o.output;
  if (named) {
    model = *o.model;
    plan.model_path = std::filesystem::proximate(std::filesystem::absolute(model), folder).string();
    plan.model_sha256 = sha256_hex(read_text_file(model));
    static_cast<void>(resolve(plan, folder));
    save_plan(plan, o.output);
  } else {
    model.replace_extension(".model.json");
    if (job.model.name.empty()) job.model.name = o.file.stem().string();
    save_with_model(plan, job.model, o.output, model);
  }
  report(o, job, model, global);
}

}  // namespace weir

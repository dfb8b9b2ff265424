// Jobs of other tools as plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/jobs/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "plan/job/resolve.hpp"
#include "plan/model/readers/foreign_job.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/seen_from.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/shared/hub.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/doubt.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

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

std::string shown_name(const std::filesystem::path& file) {
  return file == "-" ? "standard input" : file.string();
}

struct JobFormat {
  std::string_view name;
  Job (*read)(const std::string& text, const std::string& file, const JobOptions& options);
  bool says_model;         // all of it: a model named beside it must be the same
  std::string_view stack;  // the software that runs such jobs, where the file does not tell
  std::string_view tool;   // for people
};
constexpr std::array<JobFormat, 5> kFormats{
    {{"megatron", &read_megatron_job, true, "megatron-core", "Megatron"},
     {"torchtitan", &read_torchtitan_job, false, "torchtitan", "torchtitan"},
     {"neox", &read_neox_job, true, "megatron-deepspeed-2022", "GPT-NeoX"},
     {"deepspeed", &read_deepspeed_job, false, "megatron-deepspeed-2022", "DeepSpeed"},
     {"nemo", &read_nemo_job, true, "megatron-core", "NeMo"}}};

const JobFormat& job_format(std::string_view name) {
  return *std::ranges::find(kFormats, name, &JobFormat::name);
}

// A file of another tool is refused by that tool's name, and not by what is wrong with it as this
// one's.
void refuse_other_tool(const std::string& text, const std::string& file, std::string_view from) {
  const ForeignTool tool = foreign_tool(text);
  if (tool.name.empty() || tool.reader == from) return;
  throw InputError(file, "",
                   tool.reader.empty()
                       ? fmt::format("is a job of {}, which is not read", tool.name)
                       : fmt::format("is a job of {}: --from {} reads it", tool.name, tool.reader));
}

// How many of the arguments went where, and which: one line a fate.
void note_arguments(const std::vector<JobArgument>& arguments, const std::string& file,
                    const Session& session) {
  for (const Fate fate : {Fate::carried, Fate::no_effect}) {
    std::vector<std::string_view> names;
    // Those with a decision of their own are told elsewhere, one by one.
    for (const JobArgument& argument : arguments) {
      if (argument.fate == fate) names.push_back(argument.name);
    }
    if (names.empty()) continue;
    constexpr std::size_t kMost = 500;  // names of one line
    const std::size_t count = names.size();
    // A generated script may have thousands.
    names.resize(std::min(count, kMost));
    session.note(
        fmt::format("{}: {} {}: {}{}", file, count,
                    fate == Fate::carried ? "carried" : "without effect on time and memory",
                    fmt::join(names, " "), count > kMost ? " ..." : ""));
  }
}

// What the file does not say and moves the forecast, on one line.
void note_defaults(const std::vector<Remark>& defaults, std::string_view tool,
                   const std::string& file, const Session& session) {
  std::string all;
  for (const Remark& taken : defaults)
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", taken.name, taken.text);
  if (!all.empty())
    session.note(fmt::format("{}: not said, taken as {} takes it: {}", file, tool, all));
}

// Of a file of thousands the first are said.
void note_remarks(const std::vector<Remark>& remarks, const std::string& file,
                  const Session& session) {
  constexpr std::size_t kMost = 100;
  for (std::size_t i = 0; i < std::min(remarks.size(), kMost); ++i)
    session.note(fmt::format("{}: {}: {}", file, remarks[i].name, remarks[i].text));
  if (remarks.size() > kMost)
    session.note(fmt::format("{}: and {} more", file, remarks.size() - kMost));
}

// What of the job the plan keeps, for those who export it.
SourceJob source_job(std::string_view tool, const Job& job) {
  SourceJob source{.tool = std::string(tool), .devices = job.plan.devices()};
  // An export starts the tool: what another program's lines say beside the plan is not for it.
  if (job.own_program) source.lines = job.lines;
  for (const JobArgument& argument : job.arguments) {
    // What a recipe says that it has not is not left out of the plan.
    const bool unset = argument.value == "None" || argument.value == "null";
    // Nor are adapters that it switches off, which would put every forecast in doubt.
    const bool off = argument.fate == Fate::no_effect && is_of_adapters(argument.name);
    if (argument.fate != Fate::carried && !argument.launcher && !unset && !off)
      source.left_out.push_back(argument.name);
  }
  return source;
}

// `text`: the file's, which a pipe gives once.
Job read_job(const ImportRequest& r, const ImportedJob& j, const std::string& text,
             const Model* named) {
  std::optional<int> machine;
  if (j.cluster) machine = load_cluster_or_name(*j.cluster).devices();
  const JobOptions options{.gpus = r.gpus,
                           .dp = j.dp,
                           .machine = machine,
                           .vocabulary = r.vocabulary,
                           .model = named,
                           .given = j.given,
                           .config = r.config,
                           .environment = environment(),
                           .files = files_beside(j.file)};
  const std::string file = shown_name(j.file);
  const JobFormat& format = job_format(r.from);
  Job job;
  try {
    job = format.read(text, file, options);
    take_lengths(j.given, file, job);
  } catch (const DeviceCountError&) {
    throw;
  } catch (const InputError&) {
    // A file of another tool fails in many ways: saying that it is another's helps most.
    refuse_other_tool(text, file, r.from);
    throw;
  }
  if (machine && job.plan.devices() > *machine) {
    throw NoFeasiblePlan(fmt::format("{}: the job needs {} devices, the cluster has {}", file,
                                     job.plan.devices(), *machine));
  }
  // A model named twice must be the same one.
  if (named != nullptr && format.says_model && !job.model_given)
    check_same(*named, job.model, file, *r.model);
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

std::string stack_of(const SourceJob& job) {
  // What is compiled is another stack than what is not; a registry's job is not kept.
  if (job.tool == "torchtitan" && !job.lines.empty())
    return torchtitan_stack(job_text(job.lines), "the plan's job");
  // Megatron-DeepSpeed's jobs are Megatron's with one flag more, and run by other software.
  if (job.tool == "megatron" && std::ranges::find(job.lines, "--deepspeed") != job.lines.end())
    return "megatron-deepspeed-2022";
  return is_job_format(job.tool) ? std::string(job_format(job.tool).stack) : std::string();
}

bool is_job_format(std::string_view name) {
  return std::ranges::find(kFormats, name, &JobFormat::name) != kFormats.end();
}

ShellEnvironment environment() {
  ShellEnvironment all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

ShellFiles files_beside(const std::filesystem::path& job) {
  constexpr std::uintmax_t kMostBytes = 1 << 20;
  return [folder = job.parent_path()](const std::string& path) -> std::optional<ShellFile> {
    for (const std::filesystem::path& from : {folder, std::filesystem::path()}) {
      const std::filesystem::path found = from / path;
      std::error_code error;
      if (!std::filesystem::is_regular_file(found, error)) continue;
      if (std::filesystem::file_size(found, error) > kMostBytes) continue;
      return ShellFile{found.string(), read_text_file(found)};
    }
    return std::nullopt;
  };
}

std::string read_job_text(const std::filesystem::path& file) {
  return read_text_file(file == "-" ? "/dev/stdin" : file);
}

namespace {

// The job's order, by its name or from its file; nullopt: there is none, which resolving the plan
// says with its reason.
std::optional<Schedule> order_of(const Plan& plan, const std::filesystem::path& folder) {
  if (plan.schedule.ends_with(".csv")) {
    try {
      return obtain_schedule(
          {(folder / plan.schedule).string(), plan.pp, plan.vpp, plan.microbatches, {}, true});
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  auto* schedule = std::get_if<Schedule>(&made);
  return schedule == nullptr ? std::nullopt : std::optional(std::move(*schedule));
}

// The job runs its order as it stands: what that needs of the plan is taken and said, gradients out
// of micro-batch order and, where nobody chose receive slots, as many as it cannot do without.
void follow_order(Plan& plan, bool slots_chosen, const std::filesystem::path& folder,
                  const std::string& file, const Session& session) {
  const auto schedule = order_of(plan, folder);
  if (!schedule) return;
  if (validate(*schedule)) {
    plan.allow_reordered = true;
    session.note(fmt::format("{}: allow_reordered: gradients of {} come out of micro-batch order",
                             file, plan.schedule));
  }
  if (slots_chosen) return;
  const int usual = plan.slots;
  plan.slots = fewest_slots(*schedule, usual);
  if (plan.slots == usual) return;
  session.note(fmt::format("{}: slots: {} receive slots an edge: with {} {} would deadlock", file,
                           plan.slots, usual, plan.schedule));
}

// The configuration that a job's name for its model stands for: of a checkpoint beside it, else
// from where this program was started, else of Hugging Face's cache.
std::optional<std::filesystem::path> model_of_job(const std::string& name,
                                                  const std::filesystem::path& folder) {
  if (name.empty()) return std::nullopt;
  for (const std::filesystem::path& from : {folder, std::filesystem::path()}) {
    const std::filesystem::path config = from / name / "config.json";
    std::error_code none;  // what cannot be looked at is not there
    if (std::filesystem::is_regular_file(config, none)) return config;
  }
  return in_hub_cache(name);
}

}  // namespace

Imported import_job(const ImportRequest& request, const ImportedJob& j, const Session& session) {
  if (!j.output) throw UsageError("--from needs -o PLAN: its model is written beside it");
  const std::filesystem::path output = session.output(*j.output);
  ImportRequest r = request;
  std::optional<Model> named;
  if (r.model) named = load_model(*r.model);
  const std::string file = shown_name(j.file), text = read_job_text(j.file);
  // The reader knows no options of ours: which one helps is added here.
  const auto with = [&](const InputError& error, std::string_view help) {
    const std::string_view line = error.what();
    return InputError(file, "", fmt::format("{}{}", line.substr(file.size() + 2), help));
  };
  const auto read = [&] {
    try {
      return read_job(r, j, text, named ? &*named : nullptr);
    } catch (const DeviceCountError& error) {
      throw with(error, "; --gpus says on how many devices the job runs");
    }
  };
  Job job;
  try {
    job = read();
  } catch (const ModelNeeded& needed) {
    if (!session.hub) throw;
    r.model = model_of_job(needed.model(), j.file.parent_path());
    if (!r.model && is_hub_name(needed.model()))
      throw with(needed, fmt::format(", or `hf download {} config.json`", needed.model()));
    if (!r.model) throw;
    session.note(fmt::format("{}: model: {} is {}", file, needed.model(), r.model->string()));
    session.guard(*r.model);
    static_cast<void>(session.output(output));  // which may be that file
    named = load_model(*r.model);
    job = read();
  }
  Plan& plan = job.plan;
  plan.note = j.note.empty()
                  ? fmt::format("from the {} job {}", r.from, shown_name(j.file.filename()))
                  : j.note;
  plan.job = source_job(r.from, job);
  const auto folder = std::filesystem::absolute(output).parent_path();
  // The plan's own folder is what its paths start from.
  if (plan.schedule.ends_with(".csv")) {
    const auto beside = std::filesystem::absolute(j.file).parent_path() / plan.schedule;
    plan.schedule = std::filesystem::proximate(beside, folder).string();
  }
  if (j.slots) plan.slots = *j.slots;
  follow_order(plan, j.slots.has_value(), folder, file, session);
  std::filesystem::path model = output;
  if (named) {
    model = *r.model;
    plan.model_path = seen_from(folder, model).string();
    plan.model_sha256 = sha256_hex(read_text_file(model));
    // Resolved once before it is saved: a plan that cannot be read again is not written. Its folder
    // may not be there yet, so not from there.
    static_cast<void>(resolve(rebased(plan, folder, "."), "."));
    save_plan(plan, output);
  } else {
    model.replace_extension(".model.json");
    if (job.model.name.empty()) job.model.name = (j.file == "-" ? output : j.file).stem().string();
    save_with_model(plan, job.model, output, session.output(model));
  }
  for (const std::string& doubt : doubts_of(plan.job))
    session.note(fmt::format("{}: in doubt: {} is not in the plan", file, doubt));
  note_arguments(job.arguments, file, session);
  note_defaults(job.defaults, job_format(r.from).tool, file, session);
  note_remarks(job.remarks, file, session);
  return {output,        model,        job.remarks,
          job.arguments, job.defaults, job.stack.empty() ? stack_of(plan.job) : job.stack};
}

}  // namespace weir::app

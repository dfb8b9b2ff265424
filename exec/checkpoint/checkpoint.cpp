// Checkpoints as folders: made under another name, made durable, then renamed.
// SPDX-License-Identifier: Apache-2.0
#include "exec/checkpoint/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "exec/checkpoint/checkpoint_facts.hpp"
#include "exec/training/batches.hpp"
#include "exec/weights/first_failure.hpp"
#include "exec/weights/safetensors.hpp"
#include "exec/weights/weight_files.hpp"
#include "exec/weights/weight_names.hpp"
#include "plan/job/formats.hpp"
#include "plan/text/new_file.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kFolder = "checkpoints";
constexpr const char* kInitial = "init_sha256";  // of the weights that a run began with
constexpr std::string_view kUnfinished = ".tmp";

// The parts of a weight's state that there are, with what stands before its name in the file.
std::vector<std::pair<ParameterPart, std::string>> parts_of(const Optimizer& optimizer) {
  std::vector<std::pair<ParameterPart, std::string>> parts{{ParameterPart::values, ""}};
  if (state_numbers(optimizer) > 0) parts.emplace_back(ParameterPart::state1, "state1.");
  if (state_numbers(optimizer) > 1) parts.emplace_back(ParameterPart::state2, "state2.");
  return parts;
}

struct StepFolder {
  std::filesystem::path folder;
  std::int64_t step = 0;
};

// The step folders of a run, newest first.
std::vector<StepFolder> all_of(const std::filesystem::path& output) {
  std::vector<StepFolder> found;
  std::error_code none;  // no folder, no checkpoints
  for (const auto& entry : std::filesystem::directory_iterator(output / kFolder, none)) {
    if (const auto step = step_in(entry.path().filename().string()))
      found.push_back({entry.path(), *step});
  }
  std::ranges::sort(found, std::ranges::greater(), &StepFolder::step);
  return found;
}

std::string shown(const Json& object, const std::string& key) {
  return object.contains(key) ? object.at(key).dump() : "nothing";
}

// Micro-batches of all replicas together: they draw the same samples and masks, whoever trains
// which.
std::optional<double> all_microbatches(const Json& trained) {
  double product = 1;
  for (const char* key : {"microbatches", "dp"}) {
    if (!trained.contains(key) || !trained.at(key).is_number()) return std::nullopt;
    product *= trained.at(key).get<double>();
  }
  return product;
}

void require_same(const std::filesystem::path& folder, const Json& there, const Json& here) {
  const bool dealt_anew = all_microbatches(there) == all_microbatches(here);
  for (const Json* keys : {&here, &there}) {
    for (const auto& [key, value] : keys->items()) {
      if (dealt_anew && (key == "microbatches" || key == "dp")) continue;
      if (key == kInitial) continue;  // where that run began; this one begins here
      if (key == "model" && there.value("model_sha256", "") == here.value("model_sha256", ""))
        continue;  // the same under another name
      if (there.contains(key) && here.contains(key) && there.at(key) == here.at(key)) continue;
      throw InputError((folder / kCheckpointFacts).string(), key,
                       fmt::format("the checkpoint has {}, this run has {}", shown(there, key),
                                   shown(here, key)));
    }
  }
}

// Reads the state of one checkpoint.
class StateFile {
 public:
  StateFile(const ResolvedPlan& loaded, const std::filesystem::path& folder)
      : loaded_(loaded),
        path_((folder / kCheckpointTensors).string()),
        file_(folder / kCheckpointTensors) {
    for (const auto& [part, prefix] : parts_of(loaded.plan.optimizer)) {
      const std::string& of_part = prefix;
      each_weight(loaded, part, [&](ParameterId weight, const ParameterTensor& parameter) {
        static_cast<void>(tensor(of_part, weight, parameter));
      });
    }
  }

  // Throws InputError where the file's bytes are others than those that were written.
  void require_sha256(const std::string& expected) const {
    Sha256 digest;
    file_.add_to(digest);
    if (digest.hex() != expected) {
      throw InputError(path_, "",
                       fmt::format("is not the state that {} was written with", kCheckpointFacts));
    }
  }

  [[nodiscard]] ParameterState state(ParameterId weight, const ParameterTensor& parameter) const {
    ParameterState state;
    for (const auto& [part, prefix] : parts_of(loaded_.plan.optimizer)) {
      if (!has_part(parameter, part)) continue;
      std::vector<float>& into = part == ParameterPart::values   ? state.values
                                 : part == ParameterPart::state1 ? state.state1
                                                                 : state.state2;
      into = to_floats(tensor(prefix, weight, parameter), path_);
    }
    return state;
  }

 private:
  [[nodiscard]] const StoredTensor& tensor(const std::string& prefix, ParameterId weight,
                                           const ParameterTensor& parameter) const {
    const std::string name = prefix + own_name(loaded_.model, weight.layer, parameter);
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end()) throw InputError(path_, name, "is not there");
    if (found->second.shape != parameter.shape || found->second.dtype != "F32")
      throw InputError(path_, name, "has not the model's shape in F32");
    return found->second;
  }

  const ResolvedPlan& loaded_;
  std::string path_;
  SafetensorsFile file_;
};

// Whole in every way that can be known; throws InputError else.
void require_whole(const ResolvedPlan& loaded, const std::filesystem::path& folder,
                   const CheckpointFacts& facts) {
  const StateFile state(loaded, folder);
  if (facts.state_sha256) state.require_sha256(*facts.state_sha256);
}

struct PassedOver {
  std::string name, why;
};

// The first few of them by a line each; how many more, and the oldest of those, in one.
std::vector<std::string> remarks(const std::vector<PassedOver>& passed, const std::string& used) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> lines;
  for (const PassedOver& one : std::span(passed).first(std::min(kNamed, passed.size())))
    lines.push_back(fmt::format("{} is damaged ({}): {} is used", one.name, one.why, used));
  if (passed.size() > kNamed) {
    lines.push_back(fmt::format("{} more checkpoints down to {} are damaged: {} is used",
                                passed.size() - kNamed, passed.back().name, used));
  }
  return lines;
}

// The newest whole one, and why those after it were passed over. What another run has trained is no
// damage: it is refused.
Checkpoint newest(const ResolvedPlan& loaded, const std::filesystem::path& output,
                  const Json& trained) {
  std::vector<PassedOver> passed_over;
  // Newest first: what lies before a whole one is never opened.
  for (const StepFolder& step : all_of(output)) {
    const std::string name = step.folder.filename().string();
    std::optional<CheckpointFacts> facts;
    try {
      facts = read_checkpoint_facts(step.folder);
    } catch (const InputError& why) {
      passed_over.push_back({name, why.what()});
      continue;
    }
    // Damage is passed over; another model's or another plan's state is an error, or it would be
    // trained on.
    require_same(step.folder, facts->trained, trained);
    // The seal covers the facts; the tensors are hashed against what the facts say of them.
    try {
      require_whole(loaded, step.folder, *facts);
    } catch (const InputError& why) {
      passed_over.push_back({name, why.what()});
      continue;
    }
    return {step.folder, facts->step, facts->trained, facts->state_sha256,
            remarks(passed_over, name)};
  }
  std::string line =
      fmt::format("has neither {} nor a whole checkpoint under {}", kCheckpointFacts, kFolder);
  if (!passed_over.empty()) {
    const PassedOver& newest = passed_over.front();
    line += fmt::format(": {} is damaged ({})", newest.name, newest.why);
  }
  throw InputError(output.string(), "", line);
}

// The SHA-256 of what was written. All that others send is taken, whatever becomes of the file:
// they wait for nothing that happens here.
std::string write_tensors(const ResolvedPlan& loaded, const std::filesystem::path& file,
                          const FetchParameter& fetch) {
  const auto parts = parts_of(loaded.plan.optimizer);
  // Shapes of all tensors come first: a safetensors file begins with its table.
  std::vector<TensorShape> shapes;
  for (const auto& [part, prefix] : parts) {
    const std::string& of_part = prefix;
    each_weight(loaded, part, [&](ParameterId weight, const ParameterTensor& parameter) {
      shapes.push_back(
          {of_part + own_name(loaded.model, weight.layer, parameter), parameter.shape});
    });
  }
  FirstFailure failure;
  std::optional<SafetensorsWriter> writer;
  // A disk that fails must not stop the others, who still send: the failure is kept until all is
  // taken.
  failure.guard([&] {
    writer.emplace(file, std::move(shapes), WeightMetadata{{"format", "weir"}});
  });
  for (const auto& [part, prefix] : parts) {
    gather_weights(loaded, part, fetch,
                   [&](ParameterId, const ParameterTensor&, std::span<const float> values) {
                     failure.guard([&] { writer->add(values); });
                   });
  }
  failure.guard([&] { writer->commit(); });
  failure.rethrow();
  return writer->sha256();
}

// What a run that was killed while it wrote has left behind.
void remove_unfinished(const std::filesystem::path& checkpoints) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints, none)) {
    if (entry.path().filename().string().ends_with(kUnfinished))
      std::filesystem::remove_all(entry.path(), none);
  }
}

// A folder that is there already changes places with the new one, so that there is one throughout.
void put_in_place(const std::filesystem::path& made, const std::filesystem::path& folder) {
  const bool exchanges = std::filesystem::exists(folder);
  const unsigned how = exchanges ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, folder.c_str(), how) != 0) {
    // A file system without either: the old one goes first.
    std::error_code error;
    if (exchanges) std::filesystem::remove_all(folder, error);
    std::filesystem::rename(made, folder, error);
    if (error) fail_to_write(folder, error.value());
    return;
  }
  std::error_code none;  // the next run removes what stays
  if (exchanges) std::filesystem::remove_all(made, none);
}

}  // namespace

Json what_is_trained(const ResolvedPlan& loaded, const std::vector<std::filesystem::path>& data,
                     const std::optional<std::filesystem::path>& init) {
  const Plan& plan = loaded.plan;
  Json texts = Json::array();
  // Data by content, not by name: the same text elsewhere is the same training.
  for (const std::filesystem::path& file : data) texts.push_back(sha256_hex(read_data(file)));
  Json trained{{"model", loaded.model.name},
               {"model_sha256", plan.model_sha256},
               {"seq_length", plan.seq_length},
               {"dtype", to_string(plan.dtype)},
               {"attention", to_string(plan.attention)},
               {"microbatches", plan.microbatches},
               {"micro_batch_size", plan.micro_batch_size},
               {"dp", plan.dp},
               {"optimizer", optimizer_json(plan.optimizer)},
               {"seed", plan.seed},
               {"data_sha256", texts}};
  // Absent where micro-batches are equal, as earlier versions wrote it: their checkpoints stay
  // valid.
  if (plan.samples > 0) trained["global_batch_size"] = plan.samples;
  if (init) trained[kInitial] = WeightFiles(*init).sha256();
  return trained;
}

Checkpoint find_checkpoint(const ResolvedPlan& loaded, const std::filesystem::path& path,
                           const Json& trained) {
  std::error_code none;  // what cannot be looked at has no checkpoint
  if (!std::filesystem::exists(path / kCheckpointFacts, none)) return newest(loaded, path, trained);
  const CheckpointFacts facts = read_checkpoint_facts(path);
  require_same(path, facts.trained, trained);
  require_whole(loaded, path, facts);
  return {path, facts.step, facts.trained, facts.state_sha256, {}};
}

bool holds_checkpoints(const std::filesystem::path& output) { return !all_of(output).empty(); }

void remove_checkpoints(const std::filesystem::path& output) {
  std::error_code error;
  std::filesystem::remove_all(output / kFolder, error);
  if (error)
    throw InputError((output / kFolder).string(), "", "cannot be removed: " + error.message());
}

std::int64_t checkpoint_bytes(const ResolvedPlan& loaded) {
  std::int64_t numbers = 0;
  for (const auto& [part, prefix] : parts_of(loaded.plan.optimizer)) {
    each_weight(loaded, part, [&](ParameterId, const ParameterTensor& parameter) {
      numbers += parameter.elements();
    });
  }
  return numbers * static_cast<std::int64_t>(sizeof(float));
}

StateSource checkpoint_state(const ResolvedPlan& loaded, const Checkpoint& checkpoint) {
  // Shared: a StateSource can be copied, an open file cannot.
  const auto file = std::make_shared<const StateFile>(loaded, checkpoint.folder);
  return [file](ParameterId weight, const ParameterTensor& parameter) {
    return file->state(weight, parameter);
  };
}

std::filesystem::path write_checkpoint(const ResolvedPlan& loaded, const NewCheckpoint& made,
                                       const FetchParameter& fetch, bool leads) {
  if (!leads) {
    for (const auto& [part, prefix] : parts_of(loaded.plan.optimizer))
      give_weights(loaded, part, fetch);
    return {};
  }
  const std::filesystem::path checkpoints = made.output / kFolder;
  const std::string name = fmt::format("{}{:06}", kStepFolder, made.step);
  // Hidden and with the process's number: an unfinished folder is never taken for a checkpoint.
  const std::filesystem::path unfinished =
      checkpoints / fmt::format(".{}.{}{}", name, ::getpid(), kUnfinished);
  remove_unfinished(checkpoints);
  try {
    CheckpointFacts facts{.step = made.step,
                          .samples = made.step * loaded.plan.global_batch_size(),
                          .trained = made.trained,
                          .state_sha256 = {}};
    facts.state_sha256 = write_tensors(loaded, unfinished / kCheckpointTensors, fetch);
    write_file_atomically(unfinished / kCheckpointFacts, checkpoint_facts_text(facts));
    // Order of durability: files first, then the folder that names them, then the rename, then its
    // parent.
    sync_folder(unfinished);
  } catch (...) {
    std::error_code none;  // what went wrong is told, not that its rest is there
    std::filesystem::remove_all(unfinished, none);
    throw;
  }
  put_in_place(unfinished, checkpoints / name);
  sync_folder(checkpoints);
  return checkpoints / name;
}

}  // namespace weir

// Checkpoints as folders: made under another name, made durable, then renamed.
// SPDX-License-Identifier: Apache-2.0
#include "exec/checkpoint/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "exec/weights/safetensors.hpp"
#include "exec/weights/weight_names.hpp"
#include "plan/job/formats.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/text/new_file.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::string_view kSchema = "weir.checkpoint/1";
constexpr const char* kFacts = "checkpoint.json";
constexpr const char* kTensors = "state.safetensors";
constexpr const char* kFolder = "checkpoints";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kUnfinished = ".tmp";
constexpr std::int64_t kMostSteps = std::int64_t{1} << 32;

// The parts of a weight's state that there are, with what stands before its name in the file.
std::vector<std::pair<ParameterPart, std::string>> parts_of(const Optimizer& optimizer) {
  std::vector<std::pair<ParameterPart, std::string>> parts{{ParameterPart::values, ""}};
  if (state_numbers(optimizer) > 0) parts.emplace_back(ParameterPart::state1, "state1.");
  if (state_numbers(optimizer) > 1) parts.emplace_back(ParameterPart::state2, "state2.");
  return parts;
}

// The number in "step-000003"; nothing in another name.
std::optional<std::int64_t> step_in(const std::string& name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + kStep.size(), end, step);
  return read.ec == std::errc() && read.ptr == end ? std::optional(step) : std::nullopt;
}

struct Facts {
  std::int64_t step = 0;
  Json trained;
};

Facts read_facts(const std::filesystem::path& folder) {
  const std::string file = (folder / kFacts).string();
  const Json json = parse_json(read_text_file(file), file);
  JsonObject top(json, file, "");
  top.expect_schema(kSchema);
  Facts facts;
  facts.step = top.integer("step", 0, kMostSteps);
  facts.trained = top.at("trained");
  if (!facts.trained.is_object()) top.fail("trained", "expected an object");
  static_cast<void>(top.integer("samples"));  // follows from the step
  top.finish();
  return facts;
}

// The step folders of a run, newest first.
std::vector<Checkpoint> all_of(const std::filesystem::path& output) {
  std::vector<Checkpoint> found;
  std::error_code none;  // no folder, no checkpoints
  for (const auto& entry : std::filesystem::directory_iterator(output / kFolder, none)) {
    if (const auto step = step_in(entry.path().filename().string()))
      found.push_back({entry.path(), *step});
  }
  std::ranges::sort(found, std::ranges::greater(), &Checkpoint::step);
  return found;
}

bool is_whole(const std::filesystem::path& folder) {
  try {
    static_cast<void>(read_facts(folder));
    static_cast<void>(SafetensorsFile(folder / kTensors));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

std::filesystem::path newest(const std::filesystem::path& output) {
  for (const Checkpoint& checkpoint : all_of(output)) {
    if (is_whole(checkpoint.folder)) return checkpoint.folder;
  }
  throw InputError(output.string(), "",
                   fmt::format("has neither {} nor a whole checkpoint under {}", kFacts, kFolder));
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
      if (key == "model" && there.value("model_sha256", "") == here.value("model_sha256", ""))
        continue;  // the same under another name
      if (there.contains(key) && here.contains(key) && there.at(key) == here.at(key)) continue;
      throw InputError((folder / kFacts).string(), key,
                       fmt::format("the checkpoint has {}, this run has {}", shown(there, key),
                                   shown(here, key)));
    }
  }
}

// Reads the state of one checkpoint.
class StateFile {
 public:
  StateFile(const ResolvedPlan& loaded, const Checkpoint& checkpoint)
      : loaded_(loaded),
        path_((checkpoint.folder / kTensors).string()),
        file_(checkpoint.folder / kTensors) {
    for (const auto& [part, prefix] : parts_of(loaded.plan.optimizer)) {
      const std::string& of_part = prefix;
      each_weight(loaded, part, [&](ParameterId weight, const ParameterTensor& parameter) {
        static_cast<void>(tensor(of_part, weight, parameter));
      });
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

void write_tensors(const ResolvedPlan& loaded, const std::filesystem::path& file,
                   const FetchParameter& fetch) {
  const auto parts = parts_of(loaded.plan.optimizer);
  std::vector<TensorShape> shapes;
  for (const auto& [part, prefix] : parts) {
    const std::string& of_part = prefix;
    each_weight(loaded, part, [&](ParameterId weight, const ParameterTensor& parameter) {
      shapes.push_back(
          {of_part + own_name(loaded.model, weight.layer, parameter), parameter.shape});
    });
  }
  SafetensorsWriter writer(file, std::move(shapes), {{"format", "weir"}});
  for (const auto& [part, prefix] : parts) {
    gather_weights(loaded, part, fetch,
                   [&](ParameterId, const ParameterTensor&, std::span<const float> values) {
                     writer.add(values);
                   });
  }
  writer.commit();
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
    if (error) throw InputError(folder.string(), "", "cannot be written: " + error.message());
    return;
  }
  std::error_code none;  // the next run removes what stays
  if (exchanges) std::filesystem::remove_all(made, none);
}

}  // namespace

Json what_is_trained(const ResolvedPlan& loaded, const std::vector<std::filesystem::path>& data) {
  const Plan& plan = loaded.plan;
  Json texts = Json::array();
  for (const std::filesystem::path& file : data) texts.push_back(sha256_hex(read_bytes(file)));
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
  if (plan.samples > 0) trained["global_batch_size"] = plan.samples;
  return trained;
}

Checkpoint find_checkpoint(const std::filesystem::path& path, const Json& trained) {
  const std::filesystem::path folder = std::filesystem::exists(path / kFacts) ? path : newest(path);
  const Facts facts = read_facts(folder);
  require_same(folder, facts.trained, trained);
  return {folder, facts.step};
}

StateSource checkpoint_state(const ResolvedPlan& loaded, const Checkpoint& checkpoint) {
  // Shared: a StateSource can be copied, a mapped file cannot.
  const auto file = std::make_shared<const StateFile>(loaded, checkpoint);
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
  const std::string name = fmt::format("{}{:06}", kStep, made.step);
  const std::filesystem::path unfinished =
      checkpoints / fmt::format(".{}.{}{}", name, ::getpid(), kUnfinished);
  remove_unfinished(checkpoints);
  write_tensors(loaded, unfinished / kTensors, fetch);
  const Json facts{{"schema", kSchema},
                   {"step", made.step},
                   {"samples", made.step * loaded.plan.global_batch_size()},
                   {"trained", made.trained}};
  write_file_atomically(unfinished / kFacts, facts.dump(2) + "\n");
  sync_folder(unfinished);
  put_in_place(unfinished, checkpoints / name);
  sync_folder(checkpoints);
  return checkpoints / name;
}

}  // namespace weir

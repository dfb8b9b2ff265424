// A training job as another tool's file describes it: a model and a plan for it, and a list of what
// the file says that the plan does not. The readers beside this file make one; nothing that changes
// time or memory is dropped silently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/model/decoder.hpp"
#include "plan/model/model.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/given.hpp"
#include "tools/jobs/shell/script.hpp"

namespace weir {

// One argument of the file that the plan does not carry as it stands, or one that the file lacks
// and that was supposed.
struct Remark {
  std::string name;  // as the file's format calls it
  std::string text;
};

// What becomes of an argument.
enum class Fate : std::uint8_t {
  carried,      // the plan or its model says it
  no_effect,    // on time and memory of a step
  changed,      // the plan says something near it; a remark says what
  not_carried,  // it matters; a remark says how
  unknown       // not understood
};
[[nodiscard]] std::string_view to_string(Fate fate);

// What an argument that nobody read means for time and memory of a step: no_effect, not_carried or
// unknown, and why.
struct UnreadArgument {
  Fate fate = Fate::no_effect;
  std::string_view why = {};
};

struct JobArgument {
  std::string name, value;
  Fate fate = Fate::carried;
  bool launcher = false;  // of the program that starts the training, and not of the training
};

struct Job {
  Model model;
  Plan plan;  // without model_path and model_sha256: where the model is kept is the caller's choice
  std::vector<Remark> remarks;
  std::vector<JobArgument> arguments;  // all that the file gives, sorted by name
  // What the file leaves to its tool and moves time or memory of a step, as the tool takes it.
  std::vector<Remark> defaults = {};
  // By the file's own word, where rows are not one sequence each; no name: nothing says so.
  struct {
    std::string name;
    RowsOf rows = RowsOf::packed;
    int dynamic_cp = 0;  // SequenceLengths'
  } rows = {};
  std::string stack;  // the software that runs it, where the file tells; empty: as its kind of file
  std::vector<std::string> lines;  // of the SourceJob
  bool model_given = false;        // the model is the one that JobOptions gives
  bool own_program = true;  // the lines start the tool's own, and not one that has it in itself
};

// The devices that are known of do not divide among the job's ranks: another number may be said.
class DeviceCountError : public InputError {
 public:
  using InputError::InputError;
};

// The job names its model and has not its sizes: JobOptions::model may give them.
class ModelNeeded : public InputError {
 public:
  // `model`: as the job names it ("Qwen/Qwen3-8B"); empty: it does not.
  ModelNeeded(const std::string& file, const std::string& key, const std::string& why,
              std::string model)
      : InputError(file, key, why), model_(std::move(model)) {}
  [[nodiscard]] const std::string& model() const { return model_; }

 private:
  std::string model_;
};

// What a file may leave open.
struct JobOptions {
  std::optional<int> gpus;                 // all devices of the job
  std::optional<int> dp;                   // data-parallel replicas
  std::optional<int> machine = {};         // devices that there are: taken where nothing says more
  std::optional<std::int64_t> vocabulary;  // tokens the model knows, before padding
  const Model* model = nullptr;            // the model, where the file only names it
  GivenFields given;                       // of the plan
  std::string config;                      // of a file of several configurations, its name
  ShellEnvironment environment;            // what the job's script finds in its environment
  ShellFiles files;                        // and on disk: files that it sources or configures by
  bool kept = false;  // the text is lines that were kept of a job beside its plan
};

// Lengths that the user says, in rows as the job has them where it tells. Throws InputError where
// it has rows whose tokens, or whose sequences' devices, only lengths would tell.
void take_lengths(const GivenFields& given, const std::string& file, Job& job);

// Boundaries from the number of blocks of each stage: the embedding is on the first, norm and head
// are on the last. One between without a block is empty.
[[nodiscard]] std::vector<int> boundaries_of_blocks(const std::vector<int>& blocks);

// Blocks of a model that predict further tokens, and the stage that they are on; nullopt: several.
[[nodiscard]] int predicting_blocks(const Model& model);
[[nodiscard]] std::optional<int> predicting_stage(const Plan& plan, const Model& model);

// The other way round, without blocks that predict further tokens; the final norm, the head, and
// what predicts may be on stages of their own, of no block. nullopt where the first stage has no
// embedding or the last no head, or the model is no embedding, blocks, norm and head.
[[nodiscard]] std::optional<std::vector<int>> blocks_of_boundaries(const Plan& plan,
                                                                   const Model& model);

// Re-materialisation, a layer at a time, of those of a decoder's blocks that are true: none, full,
// or full's layers.
[[nodiscard]] Recompute rebuilt_blocks(const std::vector<bool>& blocks);

// Whether the layers are a token embedding, blocks of any kind without an encoder beside them, a
// norm and a head over the vocabulary: what splits into stages by blocks.
[[nodiscard]] bool is_language_model(const Model& model);
// Throws InputError where a model that was given beside the file is none.
void require_language_model(const Model& given, const std::string& file);
// nullopt where the layers are anything else, or blocks differ from each other.
[[nodiscard]] std::optional<Decoder> as_decoder(const Model& model);

// D from what is known of it: the option, else the devices over tp, cp and pp. A remark says what
// was supposed.
[[nodiscard]] int replicas_of(const JobOptions& options, std::optional<std::int64_t> gpus,
                              const Plan& plan, const std::string& file,
                              std::vector<Remark>& remarks);

}  // namespace weir

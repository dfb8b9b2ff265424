// Plans as the files that other tools train by: each exporter carries what its tool has words for
// and lists the rest. Where a tool has its own way (an order of its own, its own placement), the
// list says what will run instead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/resolve.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

struct ExportedFile {
  std::string name;
  std::string text;
};

struct ExportedJob {
  std::vector<ExportedFile> files;
  std::string launch;               // to be run in the folder of the files
  std::vector<Remark> not_carried;  // by the plan's own words
  bool whole_job = false;           // all that the job had which the plan was read from is in it
};

// What may be written of a plan that the trainer does not run as it stands (trainers/row.hpp).
struct Allowed {
  bool other_schedule = false;  // its own order, where it has none of the plan's
  bool fork = false;            // Megatron's zero-bubble fork is the trainer
};

struct ExportOptions {
  int gpus_per_node = 8;
  Allowed allowed = {};
  // The model's config.json, of which PyTorch's script makes its layers; empty: they are the
  // user's.
  std::string model_config;
};

// All throw InputError where nothing sensible can be written (a model without arguments), and where
// the trainer's table says that it does not run the plan.
[[nodiscard]] ExportedJob export_megatron(const ResolvedPlan& loaded, const ExportOptions& options);
// torchtitan's Python registry as of August 2026, and the TOML of its versions 0.2.
[[nodiscard]] ExportedJob export_torchtitan_registry(const ResolvedPlan& loaded,
                                                     const ExportOptions& options);
[[nodiscard]] ExportedJob export_torchtitan_toml(const ResolvedPlan& loaded,
                                                 const ExportOptions& options);
[[nodiscard]] ExportedJob export_torch(const ResolvedPlan& loaded, const ExportOptions& options);
[[nodiscard]] ExportedJob export_deepspeed(const ResolvedPlan& loaded,
                                           const ExportOptions& options);

// What the exporters share.

// Devices of the plan as nodes of equal size: the largest number a node that divides them.
struct Nodes {
  int each = 1;
  int count = 1;
};
[[nodiscard]] Nodes nodes_of(const Plan& plan, const ExportOptions& options);
// "torchrun ..." up to what it runs; several nodes meet at $MASTER_ADDR.
[[nodiscard]] std::string torchrun(const Nodes& nodes);

enum class ChunkPlacement : std::uint8_t { looped, v_shaped, other };
[[nodiscard]] ChunkPlacement placement_of(const ScheduleShape& shape);

// The job that a plan was read from, by the reader of its tool; nullopt where the plan came from no
// job of the tool, or from one that it does not keep. Throws InputError.
using JobReader = Job (*)(const std::string& text, const std::string& file,
                          const JobOptions& options);
[[nodiscard]] std::optional<Job> own_job(const ResolvedPlan& loaded, std::string_view tool,
                                         JobReader read);
inline constexpr const char* kOwnJob = "the plan's job";  // as its reader's file

// A job with its schedule, where that has a name. Throws InputError.
[[nodiscard]] ResolvedPlan resolved(const Job& job, const std::string& file);

// The model by its sizes. Throws InputError where it is no embedding, equal blocks, norm and head,
// or has latent attention, which Megatron alone has words for, or what no exporter has.
[[nodiscard]] Decoder decoder_for_export(const ResolvedPlan& loaded);
// Throws InputError where the decoder has what no exporter has words for.
void require_words(const Decoder& decoder, const std::string& model_path);

// Blocks of each stage; a boundary between the final norm and the head moves before the norm, with
// a remark. Throws InputError where that leaves a stage empty, where the first or the last stage
// is, or where the model is no embedding, blocks, norm and head.
[[nodiscard]] std::vector<int> stage_blocks(const ResolvedPlan& loaded,
                                            std::vector<Remark>& remarks);

// Which blocks of a model are rebuilt by themselves (recompute full), in order; a
// remark where layers other than blocks are.
[[nodiscard]] std::vector<bool> blocks_rebuilt(const ResolvedPlan& loaded, std::string_view tool,
                                               std::vector<Remark>& remarks);

// Whether two optimizers are one rule, and where it is muon, make matrices orthogonal alike.
[[nodiscard]] bool same_muon(const Optimizer& a, const Optimizer& b);

// What the plan of a changed job, read again, has otherwise than the wanted one, where no remark
// says so yet.
void remark_differences(const Plan& again, const Plan& wanted, std::vector<Remark>& remarks);

// Re-materialisation of the last micro-batch and before the gradient arrives, slots: no tool but
// ours has them.
void remark_ours(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks);
// Of a tool that numbers devices as Megatron does by default, and not otherwise.
void remark_rank_order(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks);
// Of a tool that rebuilds one block at a time and never several.
void remark_chunks(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks);

// Sequence parallelism, ZeRO, reduction beside the backward, selective re-materialisation: for
// tools that leave all of it to the user's own code.
void remark_sharing(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks);

// "1e-05" as Python reads it.
[[nodiscard]] std::string python_number(double value);

}  // namespace weir

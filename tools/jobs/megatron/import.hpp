// Megatron-LM jobs (also Megatron-DeepSpeed's and the zero-bubble fork's): their arguments, alone
// or in the script that starts them, into a model and a plan. Names, defaults and rules are those
// of megatron/training/arguments.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

// Throws InputError with file and argument: what is missing, contradicts itself, or is not modelled
// at all.
[[nodiscard]] Job read_megatron_job(const std::string& text, const std::string& file,
                                    const JobOptions& options);

// Whether that is so in words of another tool, or as Megatron prints them: no text of its own
// that could be edited.
[[nodiscard]] bool is_translated_job(const std::string& text, const std::string& file,
                                     const JobOptions& options);

// The model half of it: every argument that shapes a layer. Tensor parallelism pads the vocabulary.
[[nodiscard]] Model megatron_model(Arguments& arguments, const JobOptions& options,
                                   std::vector<Remark>& remarks);

// Parts of the plan half. Each throws InputError with the argument.
// v and where stages begin, of a plan whose pp is set.
void set_stages(Arguments& arguments, Plan& plan, std::int64_t blocks, const std::string& file);
// What of its activations the job leaves with the host, of one whose model is set.
void set_offload(Arguments& arguments, Job& job);
// Who shares experts and how tokens come to them, of a plan whose degrees and model are set; then,
// of one whose stages and re-materialisation are, whether those exchanges run beside other work.
void set_expert_parallelism(Arguments& arguments, const std::string& file, Job& job);
void set_expert_overlap(Arguments& arguments, Job& job);
// Of a plan whose dtype is set; where the job leaves it to its Megatron, a default of the job's.
void set_attention(Arguments& arguments, Job& job);
// Products in 8 bits, as --fp8-format and its like ask for them; the plan has its number format.
void set_fp8(Arguments& arguments, Job& job);
// What is launched as CUDA graphs.
void set_graphs(Arguments& arguments, Job& job);
// How sequences lie in rows, where the job says that they are not one each.
void set_rows(Arguments& arguments, Job& job);
// Whether a job's arguments are of a Megatron without Transformer Engine, by names that only it
// has: Megatron-LM before 2024, Megatron-DeepSpeed and other forks.
[[nodiscard]] bool is_old_megatron(const std::vector<std::string>& lines);
// Re-materialisation; none by default is a default of this name.
inline constexpr const char* kRecomputeDefault = "re-materialisation";
void set_recompute(Arguments& arguments, const std::vector<int>& of_stages, Job& job);

// Sizes that the job gives by another name.
void take_other_names(Arguments& arguments);

// What the user says fills the arguments that the job leaves open. Throws UsageError where one
// contradicts the job.
void fill_arguments(Arguments& arguments, const GivenFields& given);

// All devices, where the launcher's own arguments say so (torchrun, torch.distributed.launch,
// deepspeed, srun), or #SBATCH lines. A number that the script takes from elsewhere says nothing.
[[nodiscard]] std::optional<std::int64_t> megatron_devices(Arguments& arguments);

// Throws InputError for what trains no decoder-only transformer: Megatron's T5, BERT and Mamba
// programs, and blocks of another kind than a Model has.
void refuse_other_models(Arguments& arguments, const std::string& file);

// Every argument with what became of it, and remarks on those that are not carried. To be called
// when all readers have been.
void account_for(Arguments& arguments, Job& job);

// What a script said that is not known, by its line where it has one.
void add_script_remarks(const std::vector<ShellRemark>& remarks, Job& job);

// Whether an argument says what holds without it.
[[nodiscard]] bool says_default(std::string_view name, std::string_view value);
// Of an argument that nobody read.
[[nodiscard]] UnreadArgument unread_argument(std::string_view name);

}  // namespace weir

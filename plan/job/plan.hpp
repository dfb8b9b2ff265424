// A plan: everything that must be known to run or to forecast a training step, and nothing that was
// forecast or measured. Its file, weir.plan/1, is made for git: fixed key order, no date, no host;
// loading and saving gives the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/optimizer.hpp"
#include "plan/job/recompute.hpp"
#include "plan/job/source_job.hpp"
#include "plan/model/model.hpp"
#include "plan/model/split.hpp"
#include "plan/words/cuda_graphs.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/lengths.hpp"

namespace weir {

// The largest of any parallel degree that readers take: what is above is a typing error.
inline constexpr std::int64_t kMostRanks = 1 << 16;
inline constexpr double kMostExpertLoad = 1024;
inline constexpr std::int64_t kMostSlices = 1024;
inline constexpr int kMostPredictions = 64;
inline constexpr double kPredictionWeight = 0.1;  // where nothing is said, Megatron's too

// How devices are numbered: those of tp next to each other, then those of cp, and then the replicas
// of a rank before the next rank (Megatron's order), or the ranks of a replica before the next
// replica (its --use-tp-pp-dp-mapping).
enum class RankOrder : std::uint8_t { tp_cp_dp_pp, tp_cp_pp_dp };
[[nodiscard]] std::string_view to_string(RankOrder order);
[[nodiscard]] std::optional<RankOrder> parse_rank_order(std::string_view text);

// How skips cross the stages between the one that makes them and the one that takes them: handed on
// by each, behind its own output, or directly, as messages of their own (torchgpipe's portals).
enum class SkipTransport : std::uint8_t { relay, direct };
[[nodiscard]] std::string_view to_string(SkipTransport transport);
[[nodiscard]] std::optional<SkipTransport> parse_skip_transport(std::string_view text);

// How tokens come to the devices that have their experts: by the stack's own way; once for each
// expert, all to all; all of them to every device (Megatron's allgather); or once to each device
// that has some of their experts and once across to each node (DeepEP, HybridEP).
enum class ExpertDispatch : std::uint8_t { by_stack, alltoall, allgather, once };
[[nodiscard]] std::string_view to_string(ExpertDispatch dispatch);
[[nodiscard]] std::optional<ExpertDispatch> parse_expert_dispatch(std::string_view text);

// The next so many ranks stand on nodes of this pool of the cluster.
struct PlacedRanks {
  std::string pool;
  int ranks = 1;
  auto operator<=>(const PlacedRanks&) const = default;
};

struct Plan {
  std::string model_path;    // relative to the plan file
  std::string model_sha256;  // of the model file's bytes; lower-case hex
  std::int64_t seq_length = 0;
  SequenceLengths lengths;  // of the sequences in rows of so many tokens
  Dtype dtype = Dtype::fp32;
  // Products of blocks in 8 bits, all else in the number format; none: as the stack has it.
  Fp8Recipe fp8 = Fp8Recipe::none;
  bool fp8_parameters = false;     // weights are kept, and gathered, in 8 bits (--fp8-param-gather)
  Adapters lora;                   // trained in place of all weights, where their rank is above 0
  std::vector<LayerRange> frozen;  // layers whose weights stay as they are, ascending
  // Blocks behind the model's norm, each for a token further ahead (multi-token prediction), and
  // what their mean loss weighs beside the next token's.
  int prediction_layers = 0;
  double prediction_weight = kPredictionWeight;
  AttentionKind attention = AttentionKind::unfused;
  int pp = 1;                // K
  int vpp = 1;               // v
  int microbatches = 1;      // M
  int micro_batch_size = 1;  // b, of the largest
  int samples = 0;           // of a mini-batch, G, where M D does not divide it; 0: b M D
  int tp = 1, cp = 1, dp = 1;
  int ep = 1;              // devices that share a layer's experts, of the tp x cp x dp of a stage
  int etp = 0;             // devices that divide each expert, where they are fewer than tp; 0: tp
  int slices = 1;          // of each sequence, one after the other, where the schedule slices
  double expert_load = 1;  // tokens of the fullest of them over the mean: how uneven dropless
                           // routing is, or the capacity factor that each is padded to
  ExpertDispatch expert_dispatch = ExpertDispatch::by_stack;
  bool sequence_parallel = false;  // the tp devices also share what tensor parallelism leaves whole
  // What they gather and scatter for it travels in pieces beside the products that need or make it
  // (Megatron's --tp-comm-overlap, torchtitan's asynchronous tensor parallelism).
  bool overlap_tensor_parallel = false;
  // What experts exchange travels beside another micro-batch's work, forward of the one beside
  // backward of the other (Megatron's --overlap-moe-expert-parallel-comm).
  bool overlap_experts = false;
  int zero = 0;  // ZeRO stage over the dp x cp replicas; 1 is Megatron's distributed optimizer
  // Of the replicas, side by side, those among which ZeRO divides; each group of so many has all,
  // and groups add their gradients up (HSDP, MiCS). 0: all of them.
  int zero_shards = 0;
  // Of ZeRO 3: weights are held a second time, divided among so many side by side, of which the
  // backward gathers them (ZeRO++'s hpZ). 0: they are not.
  int zero_secondary = 0;
  CudaGraphs cuda_graphs;  // what is launched as such
  // The share of the optimizer's state that is kept, and updated, in the host's memory.
  double offload_optimizer = 0;
  // The share of what each block keeps from its forward to its backward that waits in the host's
  // memory, copied there and back beside what is computed.
  double offload_activations = 0;
  RankOrder rank_order = RankOrder::tp_cp_dp_pp;
  std::vector<PlacedRanks> placement;  // of all K ranks; empty: devices fill pools in their order
  bool overlap_grad_reduce =
      false;  // gradients travel while the last micro-batch's backward still runs
  bool overlap_param_gather = false;  // updated weights arrive while the next step's forward runs
  std::vector<int>
      boundaries;  // K*v-1 indices of the first layer of stages 1..., ascending; equal
                   // neighbours (0 and the number of layers at the ends): an empty stage
  SkipTransport skips = SkipTransport::relay;
  std::string schedule =
      "gpipe";  // a generator's name, or the path of a CSV file relative to the plan file
  bool allow_reordered = false;  // its gradients may come out of micro-batch order, and are then
                                 // summed in another order than one device's
  Recompute recompute;
  Optimizer optimizer;
  int slots = 2;
  std::uint64_t seed = 1;
  std::string note;
  SourceJob job;

  [[nodiscard]] int stages() const { return pp * vpp; }
  [[nodiscard]] int devices() const { return pp * tp * cp * dp; }
  [[nodiscard]] int devices_per_rank() const { return tp * cp * dp; }
  [[nodiscard]] int replicas() const { return cp * dp; }  // devices that hold the same weights
  // Of them, those among which ZeRO divides, and how many such groups there are.
  [[nodiscard]] int sharers() const { return zero_shards > 0 ? zero_shards : replicas(); }
  [[nodiscard]] int share_groups() const { return replicas() / sharers(); }
  [[nodiscard]] Split split() const {
    return {tp, cp, sequence_parallel, ep, expert_load, etp, slices};
  }
  [[nodiscard]] int expert_tp() const { return split().expert_tp(); }
  [[nodiscard]] int expert_replicas() const {  // and the same part of the same experts
    return tp * replicas() / (expert_tp() * ep);
  }
  [[nodiscard]] int expert_sharers() const { return expert_replicas() / share_groups(); }
  [[nodiscard]] std::int64_t global_batch_size() const {
    return samples > 0 ? samples : std::int64_t{micro_batch_size} * microbatches * dp;
  }
  // Micro-batches, numbered over all replicas, have b samples and behind them some b - 1, as
  // torch.tensor_split deals them.
  [[nodiscard]] std::int64_t whole_microbatches() const {
    const std::int64_t all = std::int64_t{microbatches} * dp;
    return global_batch_size() - all * (micro_batch_size - 1);
  }
  [[nodiscard]] std::int64_t samples_of(std::int64_t microbatch) const {
    return microbatch < whole_microbatches() ? micro_batch_size : micro_batch_size - 1;
  }
  [[nodiscard]] std::int64_t first_sample(std::int64_t microbatch) const {
    const std::int64_t smaller = microbatch - whole_microbatches();
    return microbatch * micro_batch_size - (smaller > 0 ? smaller : 0);
  }
  bool operator==(const Plan&) const = default;
};

// Why ep is no part of the devices that may share experts, whatever the model's; nullopt: it is.
// Precondition: etp divides tp.
[[nodiscard]] std::optional<Misfit> cannot_share_experts(const Plan& plan);
// Why a model cannot be divided as a plan says, experts among replicas included; nullopt: it can.
[[nodiscard]] std::optional<Misfit> cannot_divide(const Model& model, const Plan& plan);

// Why ZeRO cannot divide among as many as a plan says; nullopt: it can.
[[nodiscard]] std::optional<Misfit> cannot_share_state(const Plan& plan);

// Why sequences cannot lie in rows as a plan says; nullopt: they can.
[[nodiscard]] std::optional<Misfit> cannot_lie_in_rows(const Plan& plan);

// The model's layers as the plan runs them: attention, what is trained, formats of products, blocks
// that predict further tokens.
void set_treatment(Model& model, const Plan& plan);
// The same without the shards of a divided vocabulary: the layers that its boundaries divide.
[[nodiscard]] Model model_of_stages(Model model, const Plan& plan);

[[nodiscard]] std::string to_json(const Plan& plan);
// A plan file, and what it says in an older version's words and how that was read, a line each.
struct PlanFile {
  Plan plan;
  std::vector<std::string> remarks;
};
[[nodiscard]] PlanFile read_plan(const std::string& text, const std::string& file);
// The plan alone.
[[nodiscard]] Plan parse_plan(const std::string& text, const std::string& file);

void save_plan(const Plan& plan, const std::filesystem::path& file);

// The plan for another folder: paths that were relative to `from` become relative to `to`.
[[nodiscard]] Plan rebased(Plan plan, const std::filesystem::path& from,
                           const std::filesystem::path& to);

}  // namespace weir

// One stage on one device: its weights, and for each micro-batch in flight the tensors its layers
// keep. Every allocation and release follows plan/model/layer_tensors to the letter; that contract
// is what makes a forecast peak the measured one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/rank/messages.hpp"
#include "exec/rank/rebuild_clock.hpp"
#include "exec/rank/stage_shards.hpp"
#include "exec/training/each_weight.hpp"
#include "exec/training/parameter_state.hpp"
#include "exec/training/replica_share.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// Where a pass stands in training.
struct Pass {
  std::uint32_t step = 0;
  std::int32_t microbatch = 0;  // among those of all replicas; it says how many samples there are
  const std::int32_t* tokens = nullptr;
  double* loss = nullptr;
  RebuildClock* rebuilds = nullptr;  // told of layers that B or I rebuilds; null: nobody asks
  float* logits = nullptr;           // where the head's F puts them, [b, s, V]; null: nobody asks
  bool evaluates = false;            // exec/training/evaluation, and nothing is trained
  // What the loss is a mean over: the mini-batch's labels; absent: all its samples' targets.
  std::optional<std::int64_t> labels = std::nullopt;
};

// Which of the devices that hold a stage this is.
struct StagePeers {
  int replica = 0;                   // of the plan's dp
  ReplicaGroup* replicas = nullptr;  // they; null where there is one, or none is there
};

// A parameter tensor with everything that updates it.
struct Parameter {
  ParameterTensor description;
  ParameterId id;
  ParameterId first_use;  // of the same weight; untied: its own id
  Tensor weight;          // in the plan's dtype; under ZeRO-3 the replica's slice of it
  Tensor master;          // its fp32 original where the dtype has fewer bits; else empty
  Tensor gradient;        // from ZeRO-2 on the replica's slice of it
  Tensor state1, state2;
  Slice updated;  // what this replica updates, of which alone master and states are; mostly all
  [[nodiscard]] const Tensor& part(ParameterPart which) const;  // the values: in fp32
};

class StageWorker {
 public:
  // Allocates weights, gradients and optimizer state and fills them from `state`. `loaded` outlives
  // the worker.
  StageWorker(const ResolvedPlan& loaded, Stage stage, const StateSource& state, Backend& backend,
              Arena& arena, StagePeers peers = {});
  StageWorker(const StageWorker&) = delete;
  StageWorker& operator=(const StageWorker&) = delete;

  // F: takes the stage's input (empty on the first stage) and returns its output (empty on the
  // last). What stays for the backward: all that layers save; of those that are to be rebuilt by
  // themselves only the input; or of the whole stage only the input, for R to begin from.
  enum class Keep : std::uint8_t { everything, layer_inputs, stage_input };
  [[nodiscard]] Tensor forward(Pass pass, Tensor input, Keep keep);
  void rematerialise(Pass pass);
  // Called when all of a layer's work on its weights' gradients is launched: its parameters, by
  // index among the stage's.
  using LayerDone = std::function<void(int first, int count)>;
  // B and I rebuild the layers of which F kept the input, each directly before its own backward.
  // They take the output's gradient (empty on the last stage) and return the input's (empty on
  // the first).
  [[nodiscard]] Tensor backward(Pass pass, Tensor output_gradient, const LayerDone& done = {});
  [[nodiscard]] Tensor backward_input(Pass pass, Tensor output_gradient);
  void backward_weight(Pass pass, const LayerDone& done = {});

  // The row that an action of this kind, F, B or I, takes, from the messages that make it up; and
  // the messages that its row goes out as.
  [[nodiscard]] Tensor join_row(const Pass& pass, ActionKind kind, Messages messages);
  [[nodiscard]] Messages part_row(const Pass& pass, ActionKind kind, Tensor row);

  // After F: the first layer of the stage, by its index in the model, whose output is not finite
  // everywhere, `output` being the last one's; of those whose output was not kept, the next one
  // that was. For tensors in the host's memory.
  [[nodiscard]] std::optional<int> first_not_finite(Pass pass, const Tensor& output) const;

  // In the place of B or I after an F that evaluates: frees what the micro-batch keeps. Messages
  // keep their course: the output's gradient is taken, and what is returned for the input's is
  // zeros.
  [[nodiscard]] Tensor discard(Pass pass, Tensor output_gradient);

  void begin_step() { fresh_gradients_ = true; }
  // As it was before the step; its tensors are the arena's to take back.
  void forget_step() {
    in_flight_.clear();
    begin_step();
  }
  struct Step {
    std::int64_t number = 1;  // 1-based
    double factor = 1;        // of all gradients: clipping's
  };
  // Updates every parameter, or this replica's slice of it; `copies(i)` gives the gradients of that
  // to sum for the i-th, in layer order.
  template <class Copies>
  void update(Step step, Copies copies);
  // Of the sum of a parameter's gradients, or of this replica's slice of it.
  [[nodiscard]] double sum_of_squares(int parameter, std::span<const Tensor> copies) const {
    return backend_.sum_of_squares(copies,
                                   parameters_[static_cast<std::size_t>(parameter)].updated.count);
  }
  [[nodiscard]] std::vector<Parameter>& parameters() { return parameters_; }
  // Where replicas divide gradients: StageShards::most_summed.
  [[nodiscard]] std::int64_t most_summed() const { return shards_.most_summed(); }

 private:
  struct LayerState {  // of one micro-batch
    Tensor input, output_gradient;
    std::vector<Tensor> saved, carried;
    bool dropped = false;  // to be rebuilt from its input, which alone is there
  };
  struct InFlight {
    Tensor stage_input;  // waits for R
    std::vector<LayerState> layers;
  };

  [[nodiscard]] Tensor run_forward(Pass pass, Tensor input, InFlight& flight, Keep keep,
                                   bool send_output);
  // One layer's F: allocates its output, which it returns, and what it saves.
  [[nodiscard]] Tensor layer_forward(Pass pass, std::size_t layer, Tensor input, LayerState& state);
  // The layers of the chunk that ends with `last`, from what its first one kept.
  void rebuild(Pass pass, std::size_t last, InFlight& flight);
  [[nodiscard]] bool ends_chunk(const InFlight& flight, std::size_t layer) const;
  void drop(LayerState& state);
  // Whether it is dropped after F and made again in I, by the kernels of I themselves.
  [[nodiscard]] bool made_again(const KeptTensor& kept) const;
  // Under ZeRO-3, around an action: the weights of these layers are read in this order.
  void begin_reading(const std::vector<std::size_t>& layers);
  void end_reading();
  [[nodiscard]] std::vector<std::size_t> read_backwards(const InFlight& flight) const;
  void input_pass(Pass pass, std::size_t layer, InFlight& flight, Tensor& gradient);
  void weight_pass(Pass pass, std::size_t layer, LayerState& state, const LayerDone& done);
  void end_weight_passes();
  // Of a row whose messages are of this kind, bytes of a sample in each; none where the row is one.
  [[nodiscard]] std::vector<std::int64_t> pieces(ActionKind message) const;
  [[nodiscard]] LayerCall call_for(Pass pass, std::size_t layer) const;
  // With the weights, which F and I read, and W does not.
  [[nodiscard]] LayerCall reading_call(Pass pass, std::size_t layer);
  [[nodiscard]] std::int64_t input_bytes(std::size_t layer) const;
  void add_parameters(int layer, const StateSource& state);
  [[nodiscard]] Parameter new_parameter(int layer, int tensor, const StateSource& state);
  // Of a layer of the model. Throws RunFailed naming both where there is no memory.
  [[nodiscard]] Tensor take(std::int64_t bytes, int layer, std::string_view tensor);
  void put_state(const Parameter& parameter, const ParameterState& state);
  [[nodiscard]] std::size_t layers() const {
    return static_cast<std::size_t>(range_.last - range_.first);
  }
  [[nodiscard]] const LayerPart& part(std::size_t layer) const {
    return part_.layer(range_.first + static_cast<int>(layer));
  }
  [[nodiscard]] const LayerTensors& tensors(std::size_t layer) const { return part(layer).tensors; }

  const Plan& plan_;
  const Model& model_;
  const ModelPart& part_;
  const StagePart& stage_;
  StagePeers peers_;
  LayerRange range_;
  // The stage's layers, this device's part of each; and as an evaluation computes them.
  std::vector<Layer> device_, evaluated_;
  Backend& backend_;
  Arena& arena_;
  std::vector<Parameter> parameters_;  // of all its layers, in order
  std::vector<int> first_parameter_;   // per layer
  // Per layer, views of parameters_; of what replicas divide there are none.
  std::vector<std::vector<Tensor>> weights_, gradients_;
  StageShards shards_;
  std::vector<std::size_t> chunk_starts_;       // per layer: of those it is rebuilt with
  std::map<std::int32_t, InFlight> in_flight_;  // by micro-batch
  bool fresh_gradients_ = true;
};

template <class Copies>
void StageWorker::update(Step step, Copies copies) {
  std::vector<UpdateCall> calls;
  std::vector<std::vector<Tensor>> gradients;  // that the calls show
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    gradients.push_back(copies(i));
    if (gradients.back().empty())
      continue;  // a second use of a weight of this stage: updated with the first
    if (parameter.updated.count == 0) continue;  // a slice behind the end
    const bool inside = parameter.updated.count < parameter.description.elements() &&
                        !keeps_weight_slice(plan_, parameter.description);
    calls.push_back({.weight = inside ? slice_of(parameter.weight, parameter.updated,
                                                 bytes_per_element(plan_.dtype))
                                      : parameter.weight,
                     .master = parameter.master,
                     .gradients = gradients.back(),
                     .state1 = parameter.state1,
                     .state2 = parameter.state2,
                     .elements = parameter.updated.count,
                     .decays = parameter.description.decays,
                     .running = parameter.description.running,
                     .samples = plan_.global_batch_size(),
                     .step = step.number,
                     .factor = step.factor,
                     .optimizer = plan_.optimizer});
  }
  backend_.update(calls);
}

// By global stage; null where the stage is another process's.
using Stages = std::vector<std::unique_ptr<StageWorker>>;

}  // namespace weir

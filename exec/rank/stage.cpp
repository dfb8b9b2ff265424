// A stage's passes: what they take from the arena, keep and release, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>
#include <numeric>
#include <utility>

#include "exec/rank/tensor_shards.hpp"
#include "exec/training/evaluation.hpp"
#include "exec/training/stored.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// Some at a time: what is converted is then still in the caches when it is copied, and memory of a
// whole tensor is not asked for and given back.
void put(Backend& backend, const Tensor& to, std::span<const float> values, Dtype dtype) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 18;
  std::byte* at = to.data;
  for (std::size_t first = 0; first < values.size(); first += kAtOnce) {
    const std::vector<std::byte> bytes =
        stored(values.subspan(first, std::min(kAtOnce, values.size() - first)), dtype);
    const auto size = static_cast<std::int64_t>(bytes.size());
    backend.to_device({at, size}, bytes.data(), size);
    at += size;
  }
}

}  // namespace

const Tensor& Parameter::part(ParameterPart which) const {
  switch (which) {
    case ParameterPart::gradient:
      return gradient;
    case ParameterPart::state1:
      return state1;
    case ParameterPart::state2:
      return state2;
    case ParameterPart::values:
      break;
  }
  return master ? master : weight;
}

StageWorker::StageWorker(const ResolvedPlan& loaded, Stage stage, const StateSource& state,
                         Backend& backend, Arena& arena, StagePeers peers)
    : plan_(loaded.plan),
      model_(loaded.model),
      part_(*loaded.part),
      stage_(loaded.stage(stage)),
      peers_(peers),
      range_(stage_.layers),
      device_(device_layers(loaded, range_)),
      backend_(backend),
      arena_(arena) {
  for (int layer = range_.first; layer < range_.last; ++layer) add_parameters(layer, state);
  for (const Layer& layer : device_) evaluated_.push_back(as_evaluated(layer));
}

Tensor StageWorker::take(std::int64_t bytes, int layer, std::string_view tensor) {
  try {
    return arena_.allocate(bytes);
  } catch (const std::bad_alloc& none) {
    throw RunFailed(fmt::format("out of memory for {} of {}, {}: {}", tensor,
                                model_.layers[static_cast<std::size_t>(layer)].name,
                                format_bytes(Bytes(bytes)), none.what()));
  }
}

// A weight used twice on one stage (tied embedding and head) exists once; each use has a gradient
// of its own.
void StageWorker::add_parameters(int layer, const StateSource& state) {
  const LayerPart& part = part_.layer(layer);
  first_parameter_.push_back(static_cast<int>(parameters_.size()));
  std::vector<Tensor> weights, gradients;
  for (std::size_t i = 0; i < part.weights.size(); ++i) {
    const ParameterId weight = part.weights[i];
    Parameter made{
        part.tensors.parameters[i], {layer, static_cast<int>(i)}, weight, {}, {}, {}, {}, {}, {}};
    const std::int64_t elements = made.description.elements();
    // With optimizer state divided among replicas, this one updates its slice alone.
    const int sharers = dividing_replicas(plan_, made.description, ParameterPart::state1);
    made.updated = replica_slice(elements, sharers > 1 ? peers_.replica : 0, sharers);
    const std::int64_t padding = made.description.padding;
    made.gradient = take((elements + padding) * 4, layer, made.description.name + "'s gradient");
    backend_.put_zeros(made.gradient);  // stays so without micro-batches
    // Copies of one weight on one stage, such as a tied head, are found by their first use.
    const Parameter* same = nullptr;
    for (const Parameter& other : parameters_) {
      if (other.first_use == weight) same = &other;
    }
    if (same != nullptr) {
      made.weight = same->weight;
      made.master = same->master;
    } else {
      const std::int64_t each = bytes_per_element(plan_.dtype);
      made.weight = take((elements + padding) * each, layer, made.description.name);
      if (padding > 0)  // read by products, and written by nobody
        backend_.put_zeros({made.weight.data + elements * each, padding * each});
      const std::string state_of = made.description.name + "'s optimizer state";
      const std::int64_t kept = made.updated.count * 4;
      // Below fp32 the optimizer works on a master copy; in fp32 the weight is its own.
      if (bytes_per_element(plan_.dtype) < 4) made.master = take(kept, layer, state_of);
      const int states = made.description.running ? 0 : state_numbers(plan_.optimizer);
      if (states > 0) made.state1 = take(kept, layer, state_of);
      if (states > 1) made.state2 = take(kept, layer, state_of);
      put_state(made, state(weight, part_.parameter(weight)));
    }
    weights.push_back(made.weight);
    gradients.push_back(made.gradient);
    parameters_.push_back(std::move(made));
  }
  weights_.push_back(std::move(weights));
  gradients_.push_back(std::move(gradients));
}

void StageWorker::put_state(const Parameter& parameter, const ParameterState& state) {
  put(backend_, parameter.weight, state.values, plan_.dtype);
  const auto begin = [&](const Tensor& tensor, const std::vector<float>& values) {
    if (!tensor) return;
    const Slice& kept = parameter.updated;
    if (values.empty()) return backend_.put_zeros(tensor);
    put(backend_, tensor,
        std::span(values).subspan(static_cast<std::size_t>(kept.first),
                                  static_cast<std::size_t>(kept.count)),
        Dtype::fp32);
  };
  begin(parameter.master, state.values);
  begin(parameter.state1, state.state1);
  begin(parameter.state2, state.state2);
}

std::int64_t StageWorker::input_bytes(std::size_t layer) const {
  const int index = range_.first + static_cast<int>(layer);
  if (layer == 0) return stage_.input_bytes * plan_.micro_batch_size;
  return part_.layer(index - 1).tensors.output_bytes_per_sample * plan_.micro_batch_size;
}

LayerCall StageWorker::call_for(Pass pass, std::size_t layer) const {
  LayerCall call;
  const int index = range_.first + static_cast<int>(layer);
  call.layer = pass.evaluates ? &evaluated_[layer] : &device_[layer];
  if (const auto* head =
          std::get_if<HeadShape>(&model_.layers[static_cast<std::size_t>(index)].shape)) {
    call.classes = head->vocabulary;
  }
  call.batch = plan_.samples_of(pass.microbatch);  // tensors have room for the largest's
  call.seq_length = plan_.seq_length;
  call.dropout = {plan_.seed, pass.step, static_cast<std::uint32_t>(pass.microbatch),
                  static_cast<std::uint32_t>(index)};
  call.weights = weights_[layer];
  call.gradients = gradients_[layer];
  call.accumulate = !fresh_gradients_;
  call.tokens = pass.tokens;
  call.sample_words = sample_words(model_, plan_.seq_length);
  const std::int64_t samples = plan_.global_batch_size();
  call.sample_share = 1.0 / static_cast<double>(samples);
  const std::int64_t targets = samples * sample_targets(model_, plan_.seq_length);
  // Without any label there is no loss to scale.
  // Of all micro-batches: each one's loss is its share of the mini-batch's mean.
  call.loss_scale =
      1.0 / static_cast<double>(std::max<std::int64_t>(pass.labels.value_or(targets), 1));
  call.loss = pass.loss;
  return call;
}

Tensor StageWorker::layer_forward(Pass pass, std::size_t layer, Tensor input, LayerState& state) {
  const std::int64_t batch = plan_.micro_batch_size;
  const LayerTensors& t = tensors(layer);
  LayerCall call = call_for(pass, layer);
  call.input = input;
  const int index = range_.first + static_cast<int>(layer);
  call.output = take(t.output_bytes_per_sample * batch, index, "the output");
  // Saved tensors are taken before the pass that writes them, in the order the kernels name them.
  for (const KeptTensor& kept : t.saved)
    state.saved.push_back(take(kept.bytes_per_sample * batch, index, kept.name));
  call.saved = state.saved;
  call.workspace = take(t.workspace_f_bytes_per_sample * batch, index, "the workspace");
  backend_.forward(call);
  const bool head = std::holds_alternative<HeadShape>(call.layer->shape);
  if (head && pass.logits != nullptr) backend_.logits(call, pass.logits);
  arena_.release(call.workspace);
  return call.output;
}

void StageWorker::drop(LayerState& state) {
  for (Tensor& saved : state.saved) arena_.release(saved);
  state.saved.clear();
}

Tensor StageWorker::run_forward(Pass pass, Tensor input, InFlight& flight, Keep keep,
                                bool send_output) {
  flight.layers.resize(layers());
  for (std::size_t l = 0; l < layers(); ++l) {
    LayerState& state = flight.layers[l];
    const Tensor output = layer_forward(pass, l, input, state);
    // Under full re-materialisation a layer keeps its input alone, unless the plan exempts it.
    state.dropped = keep == Keep::layer_inputs &&
                    rebuilds(plan_.recompute, part(l), range_.first + static_cast<int>(l));
    if (keep == Keep::stage_input) {
      // R makes the whole stage again from its first input: the inputs between are not needed.
      drop(state);
      if (l > 0) {
        arena_.release(input);
      } else {
        flight.stage_input = input;
      }
    } else {
      if (state.dropped) drop(state);
      // I or W may read the input even if nothing is rebuilt.
      if (state.dropped || tensors(l).saves_input) {
        state.input = input;
      } else {
        arena_.release(input);
      }
    }
    input = output;
  }
  // The last stage has nobody to send to: its output has served its purpose with the loss.
  if (!send_output) arena_.release(input);
  return input;
}

Tensor StageWorker::forward(Pass pass, Tensor input, Keep keep) {
  return run_forward(pass, input, in_flight_[pass.microbatch], keep, true);
}

std::vector<std::int64_t> StageWorker::pieces(ActionKind message) const {
  const bool behind = message == ActionKind::SEND_F || message == ActionKind::RECV_B;
  const std::vector<StageSkip>& skips = behind ? stage_.skips_out : stage_.skips_in;
  if (skips.empty()) return {};
  std::vector<std::int64_t> bytes{stage_.message_bytes({{}, message})};
  for (const StageSkip& skip : skips) bytes.push_back(skip.bytes);
  return bytes;
}

Tensor StageWorker::join_row(const Pass& pass, ActionKind kind, Messages messages) {
  const bool forward = kind == ActionKind::F;
  const auto parts = pieces(forward ? ActionKind::RECV_F : ActionKind::RECV_B);
  if (parts.empty()) return messages.main;
  // The main message is the first piece of the row; skips follow by distance.
  messages.skips.insert(messages.skips.begin(), messages.main);
  const std::int64_t width = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  const Tensor row = take(width * plan_.micro_batch_size, forward ? range_.first : range_.last - 1,
                          "the row of its messages");
  std::int64_t at = 0;
  for (std::size_t i = 0; i < parts.size(); at += parts[i++]) {
    backend_.copy_rows({.from = messages.skips[i],
                        .to = row,
                        .rows = plan_.samples_of(pass.microbatch),
                        .bytes = parts[i],
                        .from_row = parts[i],
                        .to_offset = at,
                        .to_row = width});
  }
  // Their room goes back at once: the row has all of them.
  for (Tensor& message : messages.skips) arena_.release(message);
  return row;
}

Messages StageWorker::part_row(const Pass& pass, ActionKind kind, Tensor row) {
  const bool forward = kind == ActionKind::F;
  const auto parts = pieces(forward ? ActionKind::SEND_F : ActionKind::SEND_B);
  if (parts.empty()) return {row};
  const std::int64_t width = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  std::vector<Tensor> messages;
  std::int64_t at = 0;
  for (const std::int64_t bytes : parts) {
    messages.push_back(take(bytes * plan_.micro_batch_size,
                            forward ? range_.last - 1 : range_.first, "a message of its row"));
    backend_.copy_rows({.from = row,
                        .to = messages.back(),
                        .rows = plan_.samples_of(pass.microbatch),
                        .bytes = bytes,
                        .from_offset = at,
                        .from_row = width,
                        .to_row = bytes});
    at += bytes;
  }
  arena_.release(row);
  const Tensor main = messages.front();
  messages.erase(messages.begin());
  return {main, std::move(messages)};
}

std::optional<int> StageWorker::first_not_finite(Pass pass, const Tensor& output) const {
  const auto finite = [&](const Tensor& tensor, int layer) {
    if (!tensor) return true;
    const std::int64_t bytes =
        part_.layer(layer).tensors.output_bytes_per_sample * plan_.samples_of(pass.microbatch);
    const std::span<const float> values(tensor.floats(),
                                        static_cast<std::size_t>(bytes) / sizeof(float));
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  const InFlight& flight = in_flight_.at(pass.microbatch);
  // In the order of layers: the first that is not finite is where it began.
  for (std::size_t l = 1; l < flight.layers.size(); ++l) {
    const int before = range_.first + static_cast<int>(l) - 1;
    if (!finite(flight.layers[l].input, before)) return before;
  }
  if (!finite(output, range_.last - 1)) return range_.last - 1;
  // The head's output is the loss alone.
  if (pass.loss != nullptr && !output && !std::isfinite(*pass.loss)) return range_.last - 1;
  return std::nullopt;
}

Tensor StageWorker::discard(Pass pass, Tensor output_gradient) {
  InFlight flight = std::move(in_flight_.extract(pass.microbatch).mapped());
  for (LayerState& state : flight.layers) {
    drop(state);
    arena_.release(state.input);
  }
  arena_.release(flight.stage_input);
  arena_.release(output_gradient);
  const std::int64_t bytes = input_bytes(0);
  Tensor gradient = arena_.allocate(bytes);
  const std::vector<std::byte> zeros(static_cast<std::size_t>(bytes));
  if (bytes > 0) backend_.to_device(gradient, zeros.data(), bytes);
  return gradient;
}

void StageWorker::rematerialise(Pass pass) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  // The loss was counted by F.
  pass.loss = nullptr;
  const Tensor none =
      run_forward(pass, std::exchange(flight.stage_input, {}), flight, Keep::everything, false);
  assert(!none);
  static_cast<void>(none);
}

// The gradient of the layer's output is there by now; nobody reads the output again.
void StageWorker::rebuild(Pass pass, std::size_t layer, LayerState& state) {
  pass.loss = nullptr;  // was counted by F
  if (pass.rebuilds != nullptr) pass.rebuilds->begin();
  Tensor output = layer_forward(pass, layer, state.input, state);
  arena_.release(output);
  if (!tensors(layer).saves_input) arena_.release(state.input);
  if (pass.rebuilds != nullptr) pass.rebuilds->end();
  state.dropped = false;
}

void StageWorker::input_pass(Pass pass, std::size_t layer, LayerState& state, Tensor& gradient) {
  // Rebuilt only now, with the gradient there: one layer's tensors live at a time.
  if (state.dropped) rebuild(pass, layer, state);
  const LayerTensors& t = tensors(layer);
  LayerCall call = call_for(pass, layer);
  call.input = state.input;
  call.output_gradient = gradient;
  const std::int64_t batch = plan_.micro_batch_size;
  const int index = range_.first + static_cast<int>(layer);
  call.input_gradient = take(input_bytes(layer), index, "the input's gradient");
  for (const KeptTensor& kept : t.carried)
    state.carried.push_back(take(kept.bytes_per_sample * batch, index, kept.name));
  call.saved = state.saved;
  call.carried = state.carried;
  call.workspace = take(t.workspace_i_bytes_per_sample * batch, index, "the workspace");
  backend_.backward_input(call);
  arena_.release(call.workspace);
  // What only I reads goes now, what W reads too stays until weight_pass.
  for (std::size_t i = 0; i < t.saved.size(); ++i) {
    if (t.saved[i].until == KeptUntil::I) arena_.release(state.saved[i]);
  }
  if (t.input_until == KeptUntil::I) arena_.release(state.input);
  // A pass W that comes later reads the gradient, which must outlive I then.
  if (t.w_needs_output_gradient) {
    state.output_gradient = gradient;
  } else {
    arena_.release(gradient);
  }
  gradient = call.input_gradient;
}

void StageWorker::weight_pass(Pass pass, std::size_t layer, LayerState& state,
                              const LayerDone& done) {
  LayerCall call = call_for(pass, layer);
  call.input = state.input;
  call.output_gradient = state.output_gradient;
  call.saved = state.saved;
  call.carried = state.carried;
  call.workspace = take(tensors(layer).workspace_w_bytes_per_sample * plan_.micro_batch_size,
                        range_.first + static_cast<int>(layer), "the workspace");
  backend_.backward_weight(call);
  arena_.release(call.workspace);
  for (Tensor& saved : state.saved) arena_.release(saved);
  for (Tensor& carried : state.carried) arena_.release(carried);
  arena_.release(state.input);
  arena_.release(state.output_gradient);
  state.saved.clear();
  state.carried.clear();
  // The layer's gradients are final for this micro-batch: their reduction may begin.
  if (done) done(first_parameter_[layer], static_cast<int>(gradients_[layer].size()));
}

Tensor StageWorker::backward(Pass pass, Tensor output_gradient, const LayerDone& done) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  for (std::size_t l = layers(); l-- > 0;) {
    input_pass(pass, l, flight.layers[l], output_gradient);
    weight_pass(pass, l, flight.layers[l], done);
  }
  // The next micro-batch adds to the gradients that this one has overwritten or added to.
  in_flight_.erase(pass.microbatch);
  fresh_gradients_ = false;
  return output_gradient;
}

Tensor StageWorker::backward_input(Pass pass, Tensor output_gradient) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  for (std::size_t l = layers(); l-- > 0;) input_pass(pass, l, flight.layers[l], output_gradient);
  return output_gradient;
}

void StageWorker::backward_weight(Pass pass, const LayerDone& done) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  for (std::size_t l = layers(); l-- > 0;) weight_pass(pass, l, flight.layers[l], done);
  in_flight_.erase(pass.microbatch);
  fresh_gradients_ = false;
}

}  // namespace weir

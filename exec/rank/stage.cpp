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
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"

namespace weir {

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
      arena_(arena),
      shards_(loaded.plan, peers.replicas) {
  std::vector<bool> rebuilt;
  for (int layer = range_.first; layer < range_.last; ++layer) {
    add_parameters(layer, state);
    rebuilt.push_back(rebuilds(plan_.recompute, part_.layer(layer), layer));
  }
  chunk_starts_ = chunk_starts(plan_.recompute, rebuilt);
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
  call.accumulate = call.accumulate_running = !fresh_gradients_;
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

LayerCall StageWorker::reading_call(Pass pass, std::size_t layer) {
  LayerCall call = call_for(pass, layer);
  if (shards_.divides_weights()) call.weights = shards_.weights(layer);
  return call;
}

void StageWorker::begin_reading(const std::vector<std::size_t>& layers) {
  if (!shards_.divides_weights()) return;
  const Tensor room = take(shards_.reading_bytes(), range_.first, "the gathered weights");
  shards_.begin_reading(room, layers);
}

void StageWorker::end_reading() {
  if (!shards_.divides_weights()) return;
  Tensor room = shards_.end_reading();
  arena_.release(room);
}

bool StageWorker::made_again(const KeptTensor& kept) const {
  return plan_.recompute.mode == RecomputeMode::selective &&
         kept.rebuilt_by.meets(plan_.recompute.modules);
}

Tensor StageWorker::layer_forward(Pass pass, std::size_t layer, Tensor input, LayerState& state) {
  const std::int64_t batch = plan_.micro_batch_size;
  const LayerTensors& t = tensors(layer);
  LayerCall call = reading_call(pass, layer);
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
  for (std::size_t i = 0; i < t.saved.size(); ++i) {
    if (made_again(t.saved[i])) arena_.release(state.saved[i]);
  }
  return call.output;
}

void StageWorker::drop(LayerState& state) {
  for (Tensor& saved : state.saved) arena_.release(saved);
  state.saved.clear();
}

Tensor StageWorker::run_forward(Pass pass, Tensor input, InFlight& flight, Keep keep,
                                bool send_output) {
  flight.layers.resize(layers());
  std::vector<std::size_t> all(layers());
  std::iota(all.begin(), all.end(), std::size_t{0});
  begin_reading(all);
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
      if (state.dropped ? chunk_starts_[l] == l : tensors(l).saves_input) {
        state.input = input;
      } else {
        arena_.release(input);
      }
    }
    input = output;
  }
  end_reading();
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

// The gradient of the last layer's output is there by now; nobody reads that output again.
void StageWorker::rebuild(Pass pass, std::size_t last, InFlight& flight) {
  pass.loss = nullptr;  // was counted by F
  for (std::size_t l = chunk_starts_[last]; l <= last; ++l) {
    LayerState& state = flight.layers[l];
    if (pass.rebuilds != nullptr) pass.rebuilds->begin();
    Tensor output = layer_forward(pass, l, state.input, state);
    if (pass.rebuilds != nullptr) pass.rebuilds->end();
    if (l == last) {
      arena_.release(output);
    } else {
      flight.layers[l + 1].input = output;
    }
    if (!tensors(l).saves_input) arena_.release(state.input);
    state.dropped = false;
  }
}

bool StageWorker::ends_chunk(const InFlight& flight, std::size_t layer) const {
  const std::size_t next = layer + 1;
  return next == layers() || !flight.layers[next].dropped ||
         chunk_starts_[next] != chunk_starts_[layer];
}

// The layers of a chunk from its first on when it is rebuilt, then each for its own backward.
std::vector<std::size_t> StageWorker::read_backwards(const InFlight& flight) const {
  std::vector<std::size_t> order;
  for (std::size_t l = layers(); l-- > 0;) {
    if (flight.layers[l].dropped && ends_chunk(flight, l)) {
      for (std::size_t first = chunk_starts_[l]; first < l; ++first) order.push_back(first);
    }
    order.push_back(l);
  }
  return order;
}

void StageWorker::input_pass(Pass pass, std::size_t layer, InFlight& flight, Tensor& gradient) {
  LayerState& state = flight.layers[layer];
  // The last of its chunk; the others are there when their turn comes.
  if (state.dropped) rebuild(pass, layer, flight);
  const LayerTensors& t = tensors(layer);
  LayerCall call = reading_call(pass, layer);
  call.input = state.input;
  call.output_gradient = gradient;
  const std::int64_t batch = plan_.micro_batch_size;
  const int index = range_.first + static_cast<int>(layer);
  call.input_gradient = take(input_bytes(layer), index, "the input's gradient");
  for (const KeptTensor& kept : t.carried)
    state.carried.push_back(take(kept.bytes_per_sample * batch, index, kept.name));
  for (std::size_t i = 0; i < t.saved.size(); ++i) {
    if (!made_again(t.saved[i])) continue;
    state.saved[i] = take(t.saved[i].bytes_per_sample * batch, index, t.saved[i].name);
    call.core_dropped = true;
  }
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
  const int index = range_.first + static_cast<int>(layer);
  if (shards_.divides_gradients()) {
    end_weight_passes();  // of the layer before
    const Tensor whole = take(shards_.gradient_bytes(layer), index, "the gradients");
    call.gradients = shards_.begin_gradients(layer, whole);
    call.accumulate = false;
  }
  call.workspace = take(tensors(layer).workspace_w_bytes_per_sample * plan_.micro_batch_size, index,
                        "the workspace");
  backend_.backward_weight(call);
  arena_.release(call.workspace);
  if (shards_.divides_gradients()) {
    shards_.sum(fresh_gradients_ ? ReplicaGroup::Into::overwritten : ReplicaGroup::Into::added);
  }
  for (Tensor& saved : state.saved) arena_.release(saved);
  for (Tensor& carried : state.carried) arena_.release(carried);
  arena_.release(state.input);
  arena_.release(state.output_gradient);
  state.saved.clear();
  state.carried.clear();
  // The layer's gradients are final for this micro-batch: their reduction may begin.
  if (done) done(first_parameter_[layer], static_cast<int>(gradients_[layer].size()));
}

void StageWorker::end_weight_passes() {
  Tensor whole = shards_.finish();
  arena_.release(whole);
}

Tensor StageWorker::backward(Pass pass, Tensor output_gradient, const LayerDone& done) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  begin_reading(read_backwards(flight));
  for (std::size_t l = layers(); l-- > 0;) {
    input_pass(pass, l, flight, output_gradient);
    weight_pass(pass, l, flight.layers[l], done);
  }
  end_weight_passes();
  end_reading();
  // The next micro-batch adds to the gradients that this one has overwritten or added to.
  in_flight_.erase(pass.microbatch);
  fresh_gradients_ = false;
  return output_gradient;
}

Tensor StageWorker::backward_input(Pass pass, Tensor output_gradient) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  begin_reading(read_backwards(flight));
  for (std::size_t l = layers(); l-- > 0;) input_pass(pass, l, flight, output_gradient);
  end_reading();
  return output_gradient;
}

void StageWorker::backward_weight(Pass pass, const LayerDone& done) {
  InFlight& flight = in_flight_.at(pass.microbatch);
  for (std::size_t l = layers(); l-- > 0;) weight_pass(pass, l, flight.layers[l], done);
  end_weight_passes();
  in_flight_.erase(pass.microbatch);
  fresh_gradients_ = false;
}

}  // namespace weir

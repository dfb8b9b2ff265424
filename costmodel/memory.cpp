// The memory timeline. `Footprints` walks each stage's actions through the contract of plan/layer_tensors once and
// keeps what they add at their worst moment and in the end; `Timeline` replays a step's events over those.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "costmodel/layer_math.hpp"
#include "plan/layer_tensors.hpp"

namespace weir {
namespace {

using ByKind = std::array<std::int64_t, kMemoryKinds>;
std::int64_t total(const ByKind& kinds) { return std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0}); }
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// What one action does to the live bytes, from its start.
struct Footprint {
  ByKind worst{};  // at the moment of most live bytes
  ByKind net{};    // when it has ended
};

// Follows allocations and remembers the worst moment.
class Meter {
 public:
  void allocate(MemoryKind kind, std::int64_t bytes) {
    footprint_.net[static_cast<std::size_t>(kind)] += aligned_bytes(bytes);
    if (total(footprint_.net) > total(footprint_.worst)) footprint_.worst = footprint_.net;
  }
  void release(MemoryKind kind, std::int64_t bytes) {
    footprint_.net[static_cast<std::size_t>(kind)] -= aligned_bytes(bytes);
  }
  [[nodiscard]] const Footprint& footprint() const { return footprint_; }

 private:
  Footprint footprint_;
};

class StageFootprints {
 public:
  StageFootprints(const LoadedPlan& loaded, Stage stage) : batch_(loaded.plan.micro_batch_size) {
    const auto& layers = loaded.model.layers;
    const LayerRange range = layers_of_stage(loaded.plan, static_cast<int>(layers.size()), stage);
    first_of_model_ = range.first == 0;
    for (int l = range.first; l < range.last; ++l) {
      tensors_.push_back(layer_tensors(layers[at(l)], loaded.plan.seq_length, loaded.plan.dtype));
    }
    // What skips carry past a boundary travels with the layer's output and lives as long as that.
    const auto crossing = [&](int layer) {
      return crossing_bytes(loaded.model, layer, loaded.plan.seq_length, loaded.plan.dtype).count();
    };
    tensors_.back().output_bytes_per_sample = crossing(range.last - 1);
    if (!first_of_model_) stage_input_ = crossing(range.first - 1) * batch_;
  }

  // `remat`: the micro-batch is (to be) re-materialised.
  [[nodiscard]] Footprint of(ActionKind kind, bool remat) const {
    Meter meter;
    const MemoryKind kept = remat ? MemoryKind::rematerialised : MemoryKind::activations;
    switch (kind) {
      case ActionKind::F:
        forward(meter, MemoryKind::activations, remat, true);
        break;
      case ActionKind::R:
        forward(meter, kept, false, false);
        break;
      case ActionKind::I:
        for (std::size_t l = tensors_.size(); l-- > 0;) input_pass(meter, l, kept);
        break;
      case ActionKind::W:
        for (std::size_t l = tensors_.size(); l-- > 0;) weight_pass(meter, l, kept);
        break;
      case ActionKind::B:
        for (std::size_t l = tensors_.size(); l-- > 0;) {
          input_pass(meter, l, kept);
          weight_pass(meter, l, kept);
        }
        break;
      default:
        break;
    }
    return meter.footprint();
  }

  [[nodiscard]] std::int64_t output_bytes() const {
    return aligned_bytes(tensors_.back().output_bytes_per_sample * batch_);
  }
  [[nodiscard]] std::int64_t input_bytes() const { return aligned_bytes(stage_input_); }
  [[nodiscard]] const std::vector<LayerTensors>& tensors() const { return tensors_; }

 private:
  [[nodiscard]] std::int64_t input_of(std::size_t layer) const {
    return layer == 0 ? stage_input_ : tensors_[layer - 1].output_bytes_per_sample * batch_;
  }
  // The stage's own input came from elsewhere and is an activation even when the rest is re-materialised.
  static MemoryKind input_kind(std::size_t layer, MemoryKind kept) {
    return layer == 0 ? MemoryKind::activations : kept;
  }

  void forward(Meter& meter, MemoryKind kept, bool input_only, bool keeps_output) const {
    for (std::size_t l = 0; l < tensors_.size(); ++l) {
      const LayerTensors& t = tensors_[l];
      const bool last = l + 1 == tensors_.size();
      meter.allocate(last ? MemoryKind::activations : kept, t.output_bytes_per_sample * batch_);
      for (const KeptTensor& tensor : t.saved) meter.allocate(kept, tensor.bytes_per_sample * batch_);
      meter.allocate(MemoryKind::workspace, t.workspace_f_bytes_per_sample * batch_);
      meter.release(MemoryKind::workspace, t.workspace_f_bytes_per_sample * batch_);
      if (input_only) {
        for (const KeptTensor& tensor : t.saved) meter.release(kept, tensor.bytes_per_sample * batch_);
        if (l > 0) meter.release(kept, input_of(l));
      } else if (!t.saves_input) {
        meter.release(input_kind(l, kept), input_of(l));
      }
      if (last && !keeps_output) meter.release(MemoryKind::activations, t.output_bytes_per_sample * batch_);
    }
  }

  void input_pass(Meter& meter, std::size_t l, MemoryKind kept) const {
    const LayerTensors& t = tensors_[l];
    meter.allocate(MemoryKind::activations, input_of(l));
    for (const KeptTensor& tensor : t.carried)
      meter.allocate(MemoryKind::activations, tensor.bytes_per_sample * batch_);
    meter.allocate(MemoryKind::workspace, t.workspace_i_bytes_per_sample * batch_);
    meter.release(MemoryKind::workspace, t.workspace_i_bytes_per_sample * batch_);
    for (const KeptTensor& tensor : t.saved) {
      if (tensor.until == KeptUntil::I) meter.release(kept, tensor.bytes_per_sample * batch_);
    }
    if (t.saves_input && t.input_until == KeptUntil::I) meter.release(input_kind(l, kept), input_of(l));
    if (!t.w_needs_output_gradient) meter.release(MemoryKind::activations, t.output_bytes_per_sample * batch_);
  }

  void weight_pass(Meter& meter, std::size_t l, MemoryKind kept) const {
    const LayerTensors& t = tensors_[l];
    meter.allocate(MemoryKind::workspace, t.workspace_w_bytes_per_sample * batch_);
    meter.release(MemoryKind::workspace, t.workspace_w_bytes_per_sample * batch_);
    for (const KeptTensor& tensor : t.saved) {
      if (tensor.until == KeptUntil::W) meter.release(kept, tensor.bytes_per_sample * batch_);
    }
    for (const KeptTensor& tensor : t.carried) meter.release(MemoryKind::activations, tensor.bytes_per_sample * batch_);
    if (t.saves_input && t.input_until == KeptUntil::W) meter.release(input_kind(l, kept), input_of(l));
    if (t.w_needs_output_gradient) meter.release(MemoryKind::activations, t.output_bytes_per_sample * batch_);
  }

  std::int64_t batch_;
  bool first_of_model_ = false;
  std::int64_t stage_input_ = 0;
  std::vector<LayerTensors> tensors_;
};

// Weights once per stage and tie, gradients per use, fp32; optimizer state by kind.
void add_parameters(ByKind& kinds, const StageFootprints& stage, const Optimizer& optimizer) {
  const std::int64_t states = optimizer.kind == OptimizerKind::adamw ? 2 : optimizer.momentum > 0 ? 1 : 0;
  std::set<std::string> ties;
  for (const LayerTensors& layer : stage.tensors()) {
    for (const ParameterTensor& parameter : layer.parameters) {
      const std::int64_t bytes = aligned_bytes(parameter.elements() * 4);
      kinds[static_cast<std::size_t>(MemoryKind::gradients)] += bytes;
      if (!parameter.tied_with.empty() && !ties.insert(parameter.tied_with).second) continue;
      kinds[static_cast<std::size_t>(MemoryKind::weights)] += bytes;
      kinds[static_cast<std::size_t>(MemoryKind::optimizer_state)] += states * bytes;
    }
  }
}

class Timeline {
 public:
  Timeline(const LoadedPlan& loaded, const Program& program, std::span<const Span> spans,
           std::span<const Bytes> scratch)
      : program_(program),
        spans_(spans),
        live_(at(program.shape.ranks)),
        running_(live_.size()),
        peaks_(live_.size()),
        in_flight_(live_.size()) {
    for (std::int32_t stage = 0; stage < program.shape.total_stages(); ++stage) {
      stages_.emplace_back(loaded, Stage{stage});
      add_parameters(live_[at(program.shape.rank_of(Stage{stage}).value)], stages_.back(), loaded.plan.optimizer);
    }
    for (std::size_t rank = 0; rank < live_.size(); ++rank) {
      if (rank < scratch.size()) {
        live_[rank][static_cast<std::size_t>(MemoryKind::workspace)] += aligned_bytes(scratch[rank].count());
      }
      note(rank);
    }
    const LoweringOptions options = lowering_options(loaded);
    recompute_ = options.recompute;
    keep_last_ = options.keep_last_microbatch;
  }

  // `sample(time, rank)` after every change.
  template <class Sample>
  void replay(Sample sample) {
    enum Phase : std::uint8_t { ends, sends, starts };
    std::vector<std::tuple<std::int64_t, Phase, OperationId>> events;
    for (const Span& span : spans_) {
      if (span.lane == LaneKind::compute) {
        events.emplace_back(span.start.count(), starts, span.operation);
        events.emplace_back(span.end.count(), ends, span.operation);
      } else if (span.lane == LaneKind::send) {
        events.emplace_back(span.start.count(), sends, span.operation);
      }
    }
    // An action of no length must start before it ends.
    std::sort(events.begin(), events.end(), [&](const auto& a, const auto& b) { return this->key(a) < this->key(b); });
    for (const auto& [time, phase, id] : events) {
      const Action& action = program_.operations[at(id)].action;
      const auto rank = at(program_.lane_of(id).rank.value);
      if (phase == starts) begin(rank, id, action);
      if (phase == ends) end(rank, action);
      if (phase == sends) {
        const auto to = at(program_.edges[at(program_.lane_of(id).edge)].to.value);
        send(rank, to, action);
        sample(time, to);
      }
      sample(time, rank);
    }
  }

  [[nodiscard]] const std::vector<RankMemory>& peaks() const { return peaks_; }
  [[nodiscard]] const ByKind& live(std::size_t rank) const { return live_[rank]; }
  [[nodiscard]] std::int32_t in_flight(std::size_t rank) const { return in_flight_[rank]; }

 private:
  template <class Event>
  [[nodiscard]] std::tuple<std::int64_t, int, OperationId> key(const Event& event) const {
    const auto& [time, phase, id] = event;
    const Span& span = spans_[at(id)];
    const bool instant = span.lane == LaneKind::compute && span.start == span.end;
    return {time, instant ? 3 + static_cast<int>(phase == 0) : static_cast<int>(phase), id};
  }
  [[nodiscard]] bool rematerialised(const Action& action) const {
    if (recompute_.empty() || !recompute_[at(action.stage.value)]) return false;
    const bool last = action.microbatch.value / program_.shape.segments == program_.shape.microbatches - 1;
    return !(keep_last_ && last);
  }
  void note(std::size_t rank) {
    ByKind now = live_[rank];
    for (std::size_t k = 0; k < kMemoryKinds; ++k) now[k] += running_[rank].worst[k];
    if (total(now) <= peaks_[rank].peak.count()) return;
    peaks_[rank].peak = Bytes(total(now));
    for (std::size_t k = 0; k < kMemoryKinds; ++k) peaks_[rank].at_peak[k] = Bytes(now[k]);
  }
  const Footprint& footprint(const Action& action) {
    const bool remat = rematerialised(action);
    const auto [found, fresh] = footprints_.try_emplace({action.stage.value, action.kind, remat});
    if (fresh) found->second = stages_[at(action.stage.value)].of(action.kind, remat);
    return found->second;
  }
  // A received message leaves its slot when its consumer takes it.
  void take_from_slot(std::size_t rank, OperationId id, std::int64_t bytes) {
    for (const Dependency& dependency : program_.predecessors(id)) {
      if (dependency.kind != DependencyKind::data) continue;
      if (program_.lane_of(dependency.before).kind != LaneKind::receive) continue;
      live_[rank][static_cast<std::size_t>(MemoryKind::receive_slots)] -= bytes;
      live_[rank][static_cast<std::size_t>(MemoryKind::activations)] += bytes;
    }
  }
  void begin(std::size_t rank, OperationId id, const Action& action) {
    const StageFootprints& stage = stages_[at(action.stage.value)];
    if (action.kind == ActionKind::F) {
      take_from_slot(rank, id, stage.input_bytes());
      ++in_flight_[rank];
    }
    if (is_backward(action.kind)) take_from_slot(rank, id, stage.output_bytes());
    running_[rank] = footprint(action);
    note(rank);
  }
  void end(std::size_t rank, const Action& action) {
    for (std::size_t k = 0; k < kMemoryKinds; ++k) live_[rank][k] += running_[rank].net[k];
    running_[rank] = {};
    if (action.kind == ActionKind::B || action.kind == ActionKind::W) --in_flight_[rank];
    note(rank);
  }
  void send(std::size_t from, std::size_t to, const Action& action) {
    const StageFootprints& stage = stages_[at(action.stage.value)];
    const std::int64_t bytes = action.kind == ActionKind::SEND_F ? stage.output_bytes() : stage.input_bytes();
    live_[from][static_cast<std::size_t>(MemoryKind::activations)] -= bytes;
    live_[to][static_cast<std::size_t>(MemoryKind::receive_slots)] += bytes;
    note(to);
  }

  const Program& program_;
  std::span<const Span> spans_;
  std::vector<StageFootprints> stages_;
  std::vector<ByKind> live_;        // per rank, without the running action
  std::vector<Footprint> running_;  // per rank
  std::vector<RankMemory> peaks_;
  std::vector<std::int32_t> in_flight_;
  std::vector<bool> recompute_;
  bool keep_last_ = false;
  std::map<std::tuple<std::int32_t, ActionKind, bool>, Footprint> footprints_;
};

}  // namespace

std::string_view to_string(MemoryKind kind) {
  static constexpr std::array<std::string_view, kMemoryKinds> kNames{
      "weights", "gradients", "optimizer_state", "activations", "rematerialised", "workspace", "receive_slots"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<RankMemory> memory_peaks(const LoadedPlan& loaded, const Program& program, std::span<const Span> spans,
                                     std::span<const Bytes> scratch) {
  Timeline timeline(loaded, program, spans, scratch);
  timeline.replay([](std::int64_t, std::size_t) {});
  return timeline.peaks();
}

std::vector<Counter> memory_counters(const LoadedPlan& loaded, const Program& program, std::span<const Span> spans,
                                     std::span<const Bytes> scratch) {
  Timeline timeline(loaded, program, spans, scratch);
  const auto ranks = at(program.shape.ranks);
  std::vector<Counter> counters;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Rank of{static_cast<std::int32_t>(rank)};
    counters.push_back({"memory", of, CounterUnit::bytes, {}});
    for (std::size_t k = 0; k < kMemoryKinds; ++k) {
      counters.push_back({"memory/" + std::string(to_string(static_cast<MemoryKind>(k))), of, CounterUnit::bytes, {}});
    }
    counters.push_back({"in flight", of, CounterUnit::count, {}});
  }
  const std::size_t each = kMemoryKinds + 2;
  const auto put = [](Counter& counter, std::int64_t time, std::int64_t value) {
    if (!counter.samples.empty() && counter.samples.back().value == value) return;
    if (!counter.samples.empty() && counter.samples.back().time.count() == time) counter.samples.pop_back();
    counter.samples.push_back({Nanoseconds(time), value});
  };
  timeline.replay([&](std::int64_t time, std::size_t rank) {
    put(counters[rank * each], time, total(timeline.live(rank)));
    for (std::size_t k = 0; k < kMemoryKinds; ++k) put(counters[rank * each + 1 + k], time, timeline.live(rank)[k]);
    put(counters[rank * each + 1 + kMemoryKinds], time, timeline.in_flight(rank));
  });
  return counters;
}

}  // namespace weir

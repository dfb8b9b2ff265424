// Sums over replicas as a reduce-scatter and an all-gather of messages, then the gradients of tied
// weights.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_gradients.hpp"

#include <algorithm>

#include "exec/processes/process_grid.hpp"
#include "exec/rank/tensor_shards.hpp"

namespace weir {
namespace {

constexpr int kFirstTag = 1000;  // below: what the run itself sends

}  // namespace

ProcessGradients::ProcessGradients(Setup setup, Processes& processes)
    : setup_(std::move(setup)),
      processes_(processes),
      last_gradient_(last_gradients(setup_.program)),
      shared_(setup_.program, setup_.copies, setup_.rank) {
  // A tag of its own for every parameter of every stage, the same in all processes.
  int next = kFirstTag;
  for (const auto& stage : setup_.copies) {
    first_tag_.push_back(next);
    next += static_cast<int>(stage.size());
  }
  squares_tag_ = next;
  for (std::int32_t stage = 0; stage < setup_.program.shape().total_stages(); ++stage) {
    if (setup_.program.shape().rank_of(Stage{stage}) == setup_.rank) own_.push_back(stage);
  }
  if (setup_.backend == nullptr) {
    find_noted();
    return;
  }
  if (setup_.group == nullptr) return;
  for (const std::int32_t stage : own_) {
    const auto& parameters = setup_.stages[stage]->parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const ParameterId& id = parameters[p].id;
      const Layer& layer = setup_.model.layers[static_cast<std::size_t>(id.layer)];
      if (is_partial(layer, id.tensor, setup_.plan.sequence_parallel))
        partial_.emplace_back(stage, static_cast<int>(p));
    }
  }
}

// Timed waits have no gradients: whoever would exchange some sends word instead.
void ProcessGradients::find_noted() {
  const ScheduleShape& shape = setup_.program.shape();
  for (std::size_t i = 0; i < setup_.program.size(); ++i) {
    const Action& action = setup_.program.op(OperationId{i}).action;
    if (action.kind != ActionKind::OPTIMIZER || shape.rank_of(action.stage) != setup_.rank)
      continue;
    for (const Dependency& reduce : setup_.program.predecessors(OperationId{i})) {
      const Rank rank = setup_.program.rank_of(reduce.before);
      // Of its own rank it hears every replica, of other ranks those of its own replica: as if
      // gradients were exchanged.
      for (int replica = 0; replica < setup_.plan.dp; ++replica) {
        if (rank == setup_.rank || replica == setup_.replica)
          noted_.insert(process_of(rank.value, replica));
      }
    }
  }
  noted_.erase(process_of(setup_.rank.value, setup_.replica));
}

int ProcessGradients::process_of(std::int32_t rank, int replica) const {
  return ProcessGrid(setup_.plan, setup_.program.shape().ranks)
      .process(replica, setup_.tensor, Rank{rank});
}

int ProcessGradients::tag(const GradientKey& key) const {
  return first_tag_[key.first] + key.second;
}

std::span<float> ProcessGradients::slice(std::span<float> gradient, int replica) const {
  const Slice part =
      replica_slice(static_cast<std::int64_t>(gradient.size()), replica, setup_.plan.dp);
  return gradient.subspan(static_cast<std::size_t>(part.first),
                          static_cast<std::size_t>(part.count));
}

Slice ProcessGradients::updated(const GradientKey& key) const { return parameter(key).updated; }

bool ProcessGradients::divided(const GradientKey& key) const {
  return dividing_replicas(setup_.plan, parameter(key).description, ParameterPart::gradient) > 1;
}

Parameter& ProcessGradients::parameter(const GradientKey& key) const {
  return setup_.stages[key.first]->parameters()[key.second];
}

std::span<float> ProcessGradients::on_host(const GradientKey& key) {
  const Parameter& p = parameter(key);
  const auto elements =
      static_cast<std::size_t>(keeps_slice(key) ? p.updated.count : p.description.elements());
  if (setup_.backend->in_host_memory()) return {p.gradient.floats(), elements};
  const auto [copy, fresh] = host_.try_emplace(key);
  if (fresh) {
    copy->second.resize(elements);
    setup_.backend->to_host(copy->second.data(), p.gradient,
                            static_cast<std::int64_t>(elements * sizeof(float)));
  }
  return copy->second;
}

bool ProcessGradients::keeps_slice(const GradientKey& key) const {
  return keeps_gradient_slice(setup_.plan, parameter(key).description);
}

std::span<float> ProcessGradients::updated_on_host(const GradientKey& key) {
  if (keeps_slice(key)) return on_host(key);
  const Slice own = updated(key);
  return on_host(key).subspan(static_cast<std::size_t>(own.first),
                              static_cast<std::size_t>(own.count));
}

void ProcessGradients::ended(OperationId id, std::uint32_t) {
  const std::int32_t stage = setup_.program.op(id).action.stage.value;
  if (last_gradient_[stage] == id) start_reductions(stage);
}

void ProcessGradients::whole(Stage stage, int first_parameter, int count) {
  start_reductions(stage.value, first_parameter, count);
}

void ProcessGradients::start_reductions(std::int32_t stage) {
  if (setup_.backend == nullptr) return;
  start_reductions(stage, 0, static_cast<int>(setup_.stages[stage]->parameters().size()));
}

void ProcessGradients::start_reductions(std::int32_t stage, int first_parameter, int count) {
  if (setup_.plan.dp == 1) return;
  for (int p = first_parameter; p < first_parameter + count; ++p) {
    const GradientKey key{stage, p};
    if (keeps_slice(key)) continue;  // has been summed
    const auto [started, fresh] = reductions_.try_emplace(key);
    // A layer whose reduction overlaps the backward has been started by `whole`.
    if (!fresh) continue;
    Reduction& reduction = started->second;
    const std::span<float> gradient = on_host(key);
    const std::size_t own = slice(gradient, setup_.replica).size();
    reduction.partials.resize(own * static_cast<std::size_t>(setup_.plan.dp));
    // A reduce-scatter: each replica gets everybody's partials of its own slice.
    for (int replica = 0; replica < setup_.plan.dp; ++replica) {
      if (replica == setup_.replica) continue;
      const int peer = process_of(setup_.rank.value, replica);
      const std::span<float> theirs =
          std::span(reduction.partials).subspan(static_cast<std::size_t>(replica) * own, own);
      reduction.receives.push_back(
          processes_.start_receive(peer, tag(key), std::as_writable_bytes(theirs)));
      reduction.sends.push_back(
          processes_.start_send(peer, tag(key), std::as_bytes(slice(gradient, replica))));
    }
  }
}

// Sums this replica's slice in the order of replicas, whichever came first, and exchanges the sums.
void ProcessGradients::finish_reduction(const GradientKey& key, Reduction& reduction) {
  for (const Processes::Ticket receive : reduction.receives) processes_.wait(receive);
  const std::span<float> gradient = on_host(key);
  const std::span<float> own = slice(gradient, setup_.replica);
  std::copy(own.begin(), own.end(),
            reduction.partials.begin() +
                static_cast<std::ptrdiff_t>(static_cast<std::size_t>(setup_.replica) * own.size()));
  // Replica 0's partial first, then 1's, 2's...: this one's own may stand anywhere in that order.
  std::copy_n(reduction.partials.begin(), own.size(), own.begin());
  for (int replica = 1; replica < setup_.plan.dp; ++replica) {
    const float* partial =
        reduction.partials.data() + static_cast<std::size_t>(replica) * own.size();
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += partial[i];
  }
  for (const Processes::Ticket send : reduction.sends)
    processes_.wait(send);  // the sums go over what was sent
  // Where it is divided the sum is this replica's to use.
  if (!divided(key)) exchange_slices(key, std::as_writable_bytes(gradient), sizeof(float));
  // A device keeps its gradients: only the sum goes back to it.
  if (!setup_.backend->in_host_memory()) {
    setup_.backend->to_device(parameter(key).gradient, gradient.data(),
                              static_cast<std::int64_t>(gradient.size_bytes()));
  }
}

void ProcessGradients::exchange_slices(const GradientKey& key, std::span<std::byte> values,
                                       std::int64_t element_bytes) {
  const std::int64_t elements = parameter(key).description.elements();
  const auto slice_of_values = [&](int replica) {
    const Slice part = replica_slice(elements, replica, setup_.plan.dp);
    return values.subspan(static_cast<std::size_t>(part.first * element_bytes),
                          static_cast<std::size_t>(part.count * element_bytes));
  };
  std::vector<Processes::Ticket> receives;
  for (int replica = 0; replica < setup_.plan.dp; ++replica) {
    if (replica == setup_.replica) continue;
    const int peer = process_of(setup_.rank.value, replica);
    receives.push_back(processes_.start_receive(peer, tag(key), slice_of_values(replica)));
    sends_.push_back(processes_.start_send(peer, tag(key), slice_of_values(setup_.replica)));
  }
  for (const Processes::Ticket receive : receives) processes_.wait(receive);
}

// Its own slices of the weights that are divided, after its optimizer.
void ProcessGradients::updated(Stage stage) {
  if (setup_.backend == nullptr) return;
  const auto& uses = setup_.copies[stage.position()];
  for (std::size_t p = 0; p < uses.size(); ++p) {
    const GradientKey key{stage.value, static_cast<int>(p)};
    // A second use of a weight is updated with the first.
    if (uses[p].empty() || !divided(key)) continue;
    if (keeps_weight_slice(setup_.plan, parameter(key).description)) continue;
    if (!setup_.backend->in_host_memory()) {
      exchange_through_host(key);
      continue;
    }
    const Parameter& held = parameter(key);
    const auto elements = static_cast<std::size_t>(held.description.elements());
    exchange_slices(key, std::as_writable_bytes(std::span(held.weight.floats(), elements)),
                    sizeof(float));
  }
}

void ProcessGradients::exchange_through_host(const GradientKey& key) {
  const Parameter& held = parameter(key);
  const std::int64_t each = bytes_per_element(setup_.plan.dtype);
  const std::int64_t bytes = held.description.elements() * each;
  std::vector<std::byte>& values = weights_[key];
  values.resize(static_cast<std::size_t>(bytes));
  setup_.backend->to_host(values.data(), held.weight, bytes);
  exchange_slices(key, values, each);
  setup_.backend->to_device(held.weight, values.data(), bytes);
}

void ProcessGradients::sum_copies() {
  shared_.sum({processes_, [this](Rank rank) { return process_of(rank.value, setup_.replica); },
               [this](const GradientKey& key) { return tag(key); },
               [this](const GradientKey& key) { return updated_on_host(key); }});
  if (setup_.backend->in_host_memory()) return;
  for (const GradientKey& key : shared_.summed()) {
    const std::span<float> gradient = on_host(key);
    setup_.backend->to_device(parameter(key).gradient, gradient.data(),
                              static_cast<std::int64_t>(gradient.size_bytes()));
  }
}

// Every rank clips by the norm of the whole model, so all need all squares.
void ProcessGradients::exchange_squares() {
  if (!setup_.norm.clips()) return;
  for (const std::int32_t stage : own_) {
    const StageWorker& worker = *setup_.stages[stage];
    setup_.norm.set(Stage{stage}, [&](int parameter) {
      return worker.sum_of_squares(parameter,
                                   copies(Stage{stage}, static_cast<std::size_t>(parameter)));
    });
    // The optimizer's slices: a replica has seen only its own share of each gradient.
    if (setup_.plan.zero > 0) {
      std::vector<int> holders;
      for (int replica = 0; replica < setup_.plan.dp; ++replica)
        holders.push_back(process_of(setup_.rank.value, replica));
      add_squares(stage, holders, [](int) { return true; });
    }
    if (setup_.group != nullptr) {
      const ProcessGrid grid(setup_.plan, setup_.program.shape().ranks);
      std::vector<int> holders;
      for (int place = 0; place < grid.places; ++place)
        holders.push_back(grid.process(setup_.replica, place, setup_.rank));
      // A tensor that every device has whole is counted once; of a divided one each has a part.
      add_squares(stage, holders, [&](int parameter) {
        const ParameterId& id = this->parameter({stage, parameter}).id;
        return is_divided(setup_.model.layers[static_cast<std::size_t>(id.layer)], id.tensor);
      });
    }
  }
  const ScheduleShape& shape = setup_.program.shape();
  std::vector<Processes::Ticket> receives;
  for (std::int32_t stage = 0; stage < shape.total_stages(); ++stage) {
    const auto squares = std::as_writable_bytes(setup_.norm.squares_of(Stage{stage}));
    const Rank holder = shape.rank_of(Stage{stage});
    if (holder != setup_.rank) {
      receives.push_back(processes_.start_receive(process_of(holder.value, setup_.replica),
                                                  squares_tag_ + stage, squares));
      continue;
    }
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      if (Rank{rank} == setup_.rank) continue;
      sends_.push_back(
          processes_.start_send(process_of(rank, setup_.replica), squares_tag_ + stage, squares));
    }
  }
  for (const Processes::Ticket receive : receives) processes_.wait(receive);
}

// The first holder's first, as everywhere: so all find the same sum.
void ProcessGradients::add_squares(std::int32_t stage, const std::vector<int>& holders,
                                   const std::function<bool(int)>& adds) {
  const std::span<double> squares = setup_.norm.squares_of(Stage{stage});
  const std::vector<double> own(squares.begin(), squares.end());
  const int tag = squares_tag_ + stage;
  std::vector<std::vector<double>> parts(holders.size(), own);
  std::vector<Processes::Ticket> messages;
  for (std::size_t holder = 0; holder < holders.size(); ++holder) {
    const int peer = holders[holder];
    if (peer == processes_.index()) continue;
    messages.push_back(
        processes_.start_receive(peer, tag, std::as_writable_bytes(std::span(parts[holder]))));
    messages.push_back(processes_.start_send(peer, tag, std::as_bytes(std::span(own))));
  }
  for (const Processes::Ticket message : messages) processes_.wait(message);
  const std::span<const int> parameters = setup_.norm.parameters_of(Stage{stage});
  for (std::size_t i = 0; i < squares.size(); ++i) {
    if (!adds(parameters[i])) continue;
    // Its own part comes again in its place, hence from zero.
    squares[i] = 0;
    for (const auto& part : parts) squares[i] += part[i];
  }
}

void ProcessGradients::sum_partial_gradients() {
  if (partial_.empty()) return;
  const auto each = [this](auto visit) {
    std::size_t first = 0;
    for (const GradientKey& key : partial_) {
      const std::span<float> own = updated_on_host(key);
      visit(own, first);
      first += own.size();
    }
    return first;
  };
  // All of them in one exchange: each alone is short, a norm or a bias.
  summed_.resize(each([](std::span<float>, std::size_t) {}));
  each([this](std::span<float> gradient, std::size_t first) {
    std::copy_n(gradient.data(), gradient.size(), summed_.data() + first);
  });
  setup_.group->sum(summed_);
  each([this](std::span<float> gradient, std::size_t first) {
    std::copy_n(summed_.data() + first, gradient.size(), gradient.data());
  });
  if (setup_.backend->in_host_memory()) return;
  for (const GradientKey& key : partial_) {
    const std::span<float> gradient = on_host(key);
    setup_.backend->to_device(parameter(key).gradient, gradient.data(),
                              static_cast<std::int64_t>(gradient.size_bytes()));
  }
}

void ProcessGradients::exchange_notes() {
  std::vector<Processes::Ticket> receives;
  for (const int process : noted_) {
    sends_.push_back(processes_.start_send(process, kFirstTag, {}));
    receives.push_back(processes_.start_receive(process, kFirstTag, {}));
  }
  for (const Processes::Ticket receive : receives) processes_.wait(receive);
}

// All backwards of the rank have ended: optimizers stand last in its lane.
void ProcessGradients::meet() {
  if (std::exchange(met_, true)) return;
  if (setup_.backend == nullptr) {
    exchange_notes();
    return;
  }
  for (const std::int32_t stage : own_)
    start_reductions(stage);  // copies without micro-batches have not yet
  for (auto& [key, reduction] : reductions_) finish_reduction(key, reduction);
  sum_partial_gradients();
  sum_copies();
  exchange_squares();
}

void ProcessGradients::await(OperationId optimizer, std::uint32_t, StepClock& clock) {
  const Stage own = setup_.program.op(optimizer).action.stage;
  const auto reductions = setup_.program.predecessors(optimizer);
  if (reductions.empty() && partial_.empty()) return;
  meet();
  for (const Dependency& reduce : reductions) {
    if (setup_.program.op(reduce.before).action.stage != own) continue;
    const OperationId last = last_gradient_[own.position()];
    clock.end_ns[reduce.before.position()] = setup_.now();
    // A copy without micro-batches has no backward to begin from.
    clock.start_ns[reduce.before.position()] = last == kNoOperation
                                                   ? clock.end_ns[reduce.before.position()]
                                                   : clock.end_ns[last.position()];
  }
}

std::vector<Tensor> ProcessGradients::copies(Stage stage, std::size_t parameter_index) {
  const auto own = [this](const GradientKey& key) {
    if (keeps_slice(key)) return parameter(key).gradient;
    return slice_of(parameter(key).gradient, updated(key));
  };
  const GradientKey first{stage.value, static_cast<int>(parameter_index)};
  if (shared_.summed().contains(first)) return {own(first)};
  std::vector<Tensor> gradients;
  for (const GradientUse& use : setup_.copies[stage.position()][parameter_index])
    gradients.push_back(own({use.stage.value, use.parameter}));
  return gradients;
}

void ProcessGradients::end_step() {
  for (const Processes::Ticket send : sends_) processes_.wait(send);
  sends_.clear();
  reductions_.clear();
  host_.clear();
  weights_.clear();
  met_ = false;
}

}  // namespace weir

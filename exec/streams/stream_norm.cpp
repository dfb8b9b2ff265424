// Squares by weight in one array, exchanged between the processes of a replica, or of all.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/stream_norm.hpp"

#include <algorithm>
#include <utility>

#include "exec/rank/tensor_shards.hpp"

namespace weir {
namespace {

constexpr std::int64_t kNumber = sizeof(double);

}  // namespace

StreamNorm::StreamNorm(Setup setup) : setup_(std::move(setup)) {
  const auto weights = static_cast<std::int64_t>(setup_.norm.weights());
  rooms_.resize(setup_.ranks.size());
  factors_.resize(setup_.ranks.size());
  for (const Rank rank : setup_.program.ranks()) {
    const RankOfNorm& own = setup_.ranks[rank.position()];
    if (own.backend == nullptr) continue;
    if (reader_ == nullptr) {
      reader_ = own.backend;
      // One row of squares for each part: replicas have parts of their own where the state is
      // divided.
      squares_ = own.arena->allocate(setup_.parts * weights * kNumber);
      if (setup_.places > 1) reader_->put_zeros(squares_);  // of what others make
    }
    std::int64_t room = 0;  // of its largest stage: squares of one are made after another's
    for (const Stage stage : setup_.program.shape().all_stages()) {
      if (setup_.program.shape().rank_of(stage) != rank) continue;
      std::int64_t needed = 0;
      for (const int p : setup_.norm.parameters_of(stage)) {
        const auto& parameters = setup_.stages[stage.position()]->parameters();
        needed += own.backend->squares_room(parameters[static_cast<std::size_t>(p)].updated.count);
      }
      room = std::max(room, needed);
    }
    rooms_[rank.position()] = own.arena->allocate(room);
    factors_[rank.position()] = own.arena->allocate(sizeof(float));
  }
}

bool StreamNorm::makes(const Parameter& held) const {
  if (setup_.part % setup_.places == 0) return true;
  return is_divided(setup_.model->layers[static_cast<std::size_t>(held.id.layer)], held.id.tensor);
}

bool StreamNorm::here(Stage stage) const {
  return setup_.ranks[setup_.program.shape().rank_of(stage).position()].backend != nullptr;
}

double* StreamNorm::place(int part, Stage stage) const {
  const std::size_t before =
      static_cast<std::size_t>(part) * setup_.norm.weights() + setup_.norm.first_weight(stage);
  return reinterpret_cast<double*>(squares_.data) + before;
}

void StreamNorm::launch_squares(Stage stage, Stream& on) {
  const std::span<const int> parameters = setup_.norm.parameters_of(stage);
  if (parameters.empty()) return;
  const auto& held = setup_.stages[stage.position()]->parameters();
  std::vector<std::vector<Tensor>> gradients;  // that the calls show
  std::vector<SquaresCall::One> weights;       // that follow each other
  const Rank rank = setup_.program.shape().rank_of(stage);
  double* to = place(setup_.part, stage);
  const auto launch = [&] {
    if (!weights.empty()) {
      setup_.ranks[rank.position()].backend->launch_squares({weights, rooms_[rank.position()], to},
                                                            on);
    }
    to += weights.size();
    weights.clear();
  };
  for (const int p : parameters) {
    const auto parameter = static_cast<std::size_t>(p);
    if (!makes(held[parameter])) {
      launch();
      ++to;
      continue;
    }
    gradients.push_back(setup_.gradients.copies(stage, parameter));
    weights.push_back({gradients.back(), held[parameter].updated.count});
  }
  launch();
}

// What a rank of a part has made, as messages with a member.
void StreamNorm::add_squares(std::vector<StreamTransfer>& to, int member, int part,
                             Rank rank) const {
  for (const Stage stage : setup_.program.shape().all_stages()) {
    const auto count = static_cast<std::int64_t>(setup_.norm.parameters_of(stage).size());
    if (count == 0 || setup_.program.shape().rank_of(stage) != rank) continue;
    const Tensor squares{reinterpret_cast<std::byte*>(place(part, stage)), count * kNumber};
    to.push_back({member, squares});
  }
}

void StreamNorm::launch_all(StreamTransport& transport) {
  const ScheduleShape& shape = setup_.program.shape();
  Rank own;
  // Own squares first: they are what is sent.
  for (const Stage stage : shape.all_stages()) {
    if (!here(stage)) continue;
    own = shape.rank_of(stage);
    launch_squares(stage, transport.gradient_stream());
  }
  std::vector<StreamTransfer> sends, receives;
  for (int part = 0; part < setup_.parts; ++part) {
    for (const Rank rank : setup_.program.ranks()) {
      // A rank sends nothing to itself.
      if (part == setup_.part && rank == own) continue;
      const int member = part * shape.ranks + rank.value;
      add_squares(sends, member, setup_.part, own);
      add_squares(receives, member, part, rank);
    }
  }
  if (!sends.empty() || !receives.empty()) transport.exchange(Among::norm, sends, receives);
}

void StreamNorm::launch_factor(Rank rank) {
  const Tensor& factor = factors_[rank.position()];
  setup_.ranks[rank.position()].backend->launch_factor(
      {.squares = reinterpret_cast<const double*>(squares_.data),
       .weights = static_cast<std::int64_t>(setup_.norm.weights()),
       .parts = setup_.parts,
       .places = setup_.places,
       .most = setup_.norm.most(),
       .factor = factor});
}

double StreamNorm::read() {
  const std::size_t weights = setup_.norm.weights();
  std::vector<double> found(static_cast<std::size_t>(setup_.parts) * weights);
  reader_->to_host(found.data(), squares_, static_cast<std::int64_t>(found.size()) * kNumber);
  const std::span<double> squares = setup_.norm.squares();
  for (std::size_t weight = 0; weight < weights; ++weight) {
    squares[weight] = 0;
    for (int place = 0; place < setup_.places; ++place) {
      double piece = 0;
      for (int part = place; part < setup_.parts; part += setup_.places)
        piece += found[static_cast<std::size_t>(part) * weights + weight];
      squares[weight] += piece;
    }
  }
  static_cast<void>(setup_.norm.factor());  // throws where it is not finite
  return setup_.norm.norm().value();
}

}  // namespace weir

// A round of messages for each piece: sent, received, added, and only then written over.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/shared_gradients.hpp"

#include <algorithm>
#include <cstdint>

namespace weir {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;  // numbers: a megabyte a use

}  // namespace

std::set<GradientKey> summed_with_first(const Program& program, const GradientCopies& copies) {
  const ScheduleShape& shape = program.shape();
  std::set<GradientKey> later;
  for (const auto& stage : copies) {
    for (const std::vector<GradientUse>& uses : stage) {
      const auto apart = [&](const GradientUse& use) {
        return shape.rank_of(use.stage) != shape.rank_of(uses.front().stage);
      };
      if (std::ranges::none_of(uses, apart)) continue;
      for (std::size_t u = 1; u < uses.size(); ++u)
        later.emplace(uses[u].stage.value, uses[u].parameter);
    }
  }
  return later;
}

SharedGradients::SharedGradients(const Program& program, const GradientCopies& copies, Rank own)
    : own_(own) {
  const ScheduleShape& shape = program.shape();
  for (std::size_t stage = 0; stage < copies.size(); ++stage) {
    const Stage here{static_cast<std::int32_t>(stage)};
    if (shape.rank_of(here) != own) continue;
    for (std::size_t p = 0; p < copies[stage].size(); ++p) {
      const std::vector<GradientUse>& uses = copies[stage][p];
      const auto elsewhere = [&](const GradientUse& use) {
        return shape.rank_of(use.stage) != own;
      };
      // All uses on this rank: the optimizer adds them itself, without a message.
      if (std::ranges::none_of(uses, elsewhere)) continue;
      const GradientKey first{uses.front().stage.value, uses.front().parameter};
      const auto [found, fresh] = weights_.try_emplace(first);
      Weight& weight = found->second;
      weight.own.emplace_back(here.value, static_cast<int>(p));
      summed_.insert(weight.own.back());
      // Another stage of this rank has listed the weight's uses already.
      if (!fresh) continue;
      for (const GradientUse& use : uses) {
        const Rank rank = shape.rank_of(use.stage);
        weight.uses.push_back({{use.stage.value, use.parameter}, rank});
        if (rank != own) weight.others.insert(rank);
      }
    }
  }
}

void SharedGradients::sum(const Ends& ends) {
  for (const auto& [first, weight] : weights_) sum(weight, ends);
}

void SharedGradients::sum(const Weight& weight, const Ends& ends) {
  const std::size_t count = ends.gradient(weight.own.front()).size();
  arrived_.resize(weight.uses.size() * std::min(kPiece, count));
  for (std::size_t first = 0; first < count; first += kPiece)
    sum_piece(weight, ends, first, std::min(kPiece, count - first));
}

void SharedGradients::sum_piece(const Weight& weight, const Ends& ends, std::size_t first,
                                std::size_t count) {
  std::vector<Processes::Ticket> messages;
  std::vector<std::span<const float>> terms;
  for (std::size_t u = 0; u < weight.uses.size(); ++u) {
    const auto& [key, rank] = weight.uses[u];
    if (rank == own_) {
      const std::span<const float> own = ends.gradient(key).subspan(first, count);
      // One message a rank, however many of its stages use the weight.
      for (const Rank other : weight.others)
        messages.push_back(
            ends.processes.start_send(ends.process_of(other), ends.tag(key), std::as_bytes(own)));
      terms.push_back(own);
      continue;
    }
    const std::span<float> piece = std::span(arrived_).subspan(u * count, count);
    messages.push_back(ends.processes.start_receive(ends.process_of(rank), ends.tag(key),
                                                    std::as_writable_bytes(piece)));
    terms.push_back(piece);
  }
  for (const Processes::Ticket message : messages) ends.processes.wait(message);
  // In the order of uses, the own ones among them: every rank gets the same bits.
  total_.assign(terms.front().begin(), terms.front().end());
  for (std::size_t u = 1; u < terms.size(); ++u) {
    for (std::size_t i = 0; i < count; ++i) total_[i] += terms[u][i];
  }
  for (const GradientKey& key : weight.own)
    std::ranges::copy(total_, ends.gradient(key).subspan(first, count).begin());
}

}  // namespace weir

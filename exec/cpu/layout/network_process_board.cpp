// Both sides of a message know what it holds: each follows the other's reads.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_process_board.hpp"

#include <algorithm>
#include <span>

#include "exec/cpu/layout/network_routes.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Axes;

// Messages of one pair and tag arrive in order, and all processes exchange in one order.
constexpr int kPartTag = 1, kSumTag = 2, kMoveTag = 3;

class Messages {
 public:
  explicit Messages(Processes& processes) : processes_(processes) {}
  void send(int to, int tag, std::span<const float> numbers) {
    if (!numbers.empty())
      tickets_.push_back(processes_.start_send(to, tag, std::as_bytes(numbers)));
  }
  void receive(int from, int tag, std::span<float> numbers) {
    if (!numbers.empty())
      tickets_.push_back(processes_.start_receive(from, tag, std::as_writable_bytes(numbers)));
  }
  void wait() {
    for (const Processes::Ticket ticket : tickets_) processes_.wait(ticket);
    tickets_.clear();
  }

 private:
  Processes& processes_;
  std::vector<Processes::Ticket> tickets_;
};

}  // namespace

double message_bytes(const layout::Network& network, const layout::NetworkLayout& layout) {
  std::int64_t largest = 0;
  for (const layout::NetworkLayer& layer : network.layers) {
    for (const layout::NetworkTensor& tensor : layer.tensors)
      largest = std::max(largest, BlockShape(network, layout, tensor.dimensions).elements);
    for (const layout::Operation& o : layer.operations) {
      // A token's gradient is that of all its visits.
      if (o.act != layout::Act::route) continue;
      const auto &tokens = layer.tensors[at(o.inputs[0])].dimensions,
                 &visits = layer.tensors[at(o.output)].dimensions;
      largest = std::max(largest, BlockShape(network, layout, tokens).elements *
                                      route_sides(network, tokens, visits).copies);
    }
  }
  // An all-reduce receives g - 1 parts of g of one block. A move receives and sends copies of at
  // most the larger one of the two blocks that it is between.
  return 2.0 * sizeof(float) * static_cast<double>(largest * members(layout, ~Axes{0}));
}

std::int64_t ProcessBoard::all_reduce(const MeshPlace& place, Axes axes, float* block,
                                      std::int64_t n, Reduction reduction) {
  const std::vector<int> group = place.group(axes);
  if (group.size() == 1) return 0;
  const ReducedParts parts{static_cast<int>(group.size()), n};
  const auto self = static_cast<int>(std::ranges::find(group, place.processor()) - group.begin());
  const auto part = [&](float* of, int member) {
    const std::int64_t begin = parts.begin_of(member);
    return std::span(of + begin, at(parts.begin_of(member + 1) - begin));
  };
  // 1. Each gets its own part of all blocks, and no more of them.
  const std::span<float> own = part(block, self);
  std::vector<std::vector<float>> others(group.size());
  std::vector<float*> own_parts(group.size(), own.data());
  Messages messages(processes_);
  for (int m = 0; m < parts.members; ++m) {
    if (m == self) continue;
    others[at(m)].resize(own.size());
    own_parts[at(m)] = others[at(m)].data();
    messages.receive(group[at(m)], kPartTag, others[at(m)]);
    messages.send(group[at(m)], kPartTag, part(block, m));
  }
  messages.wait();
  // 2. It sums them in the order of members, as threads do.
  reduce_range(own_parts, 0, std::ssize(own), self, reduction);
  // 3. Everybody gets the sums of the others' parts.
  for (int m = 0; m < parts.members; ++m) {
    if (m == self) continue;
    messages.receive(group[at(m)], kSumTag, part(block, m));
    messages.send(group[at(m)], kSumTag, own);
  }
  messages.wait();
  return parts.exchanged(self);
}

std::int64_t ProcessBoard::relocate(const MeshPlace& place, const Move& move, float* in,
                                    float* out) {
  const int self = place.processor(), all = processes_.count();
  const MoveReads reads(network(), layout(), place, move);
  std::vector<std::vector<float>> coming(at(all)), going(at(all));
  std::vector<std::size_t> count(at(all), 0);
  reads.each([&](std::int64_t, std::int64_t processor, std::int64_t) { ++count[at(processor)]; });
  Messages messages(processes_);
  for (int other = 0; other < all; ++other) {
    if (other == self) continue;
    coming[at(other)].resize(count[at(other)]);
    messages.receive(other, kMoveTag, coming[at(other)]);
    // What it reads of this processor's block, in its order.
    MoveReads(network(), layout(), MeshPlace(layout(), other), move)
        .each([&](std::int64_t, std::int64_t processor, std::int64_t offset) {
          if (processor == self) going[at(other)].push_back(in[offset]);
        });
    messages.send(other, kMoveTag, going[at(other)]);
  }
  messages.wait();
  std::ranges::fill(count, 0);
  std::fill_n(out, reads.elements(), 0.0F);
  std::int64_t read = 0;
  reads.each([&](std::int64_t i, std::int64_t processor, std::int64_t offset) {
    const bool own = processor == self;
    out[i] += own ? in[offset] : coming[at(processor)][count[at(processor)]++];
    read += own ? 0 : 1;
  });
  return read;
}

std::int64_t ProcessBoard::reduce_share(const MeshPlace& place, Axes axes, Axes sharers,
                                        std::span<float> block) {
  const std::vector<int> group = place.group(axes);
  const auto part_of = [&](const MeshPlace& member) {
    const SharedPart part = shared_part(layout(), member, sharers, std::ssize(block));
    return block.subspan(at(part.begin()), at(part.size()));
  };
  const std::span<float> own = part_of(place);
  std::vector<std::vector<float>> others(group.size());
  std::vector<float*> own_parts(group.size(), own.data());
  std::size_t self = 0;
  Messages messages(processes_);
  for (std::size_t m = 0; m < group.size(); ++m) {
    if (group[m] == place.processor()) {
      self = m;
      continue;
    }
    others[m].resize(own.size());
    own_parts[m] = others[m].data();
    messages.receive(group[m], kPartTag, others[m]);
    messages.send(group[m], kPartTag, part_of(MeshPlace(layout(), group[m])));
  }
  messages.wait();
  reduce_range(own_parts, 0, std::ssize(own), static_cast<int>(self), Reduction::sum);
  return std::ssize(own) * (std::ssize(group) - 1);
}

std::int64_t ProcessBoard::gather_shares(const MeshPlace& place, Axes sharers,
                                         std::span<float> block) {
  std::int64_t read = 0;
  Messages messages(processes_);
  const auto part_of = [&](const MeshPlace& member) {
    const SharedPart part = shared_part(layout(), member, sharers, std::ssize(block));
    return block.subspan(at(part.begin()), at(part.size()));
  };
  for (const int other : place.group(sharers)) {
    if (other == place.processor()) continue;
    const std::span<float> its = part_of(MeshPlace(layout(), other));
    messages.receive(other, kSumTag, its);
    messages.send(other, kSumTag, part_of(place));
    read += std::ssize(its);
  }
  messages.wait();
  return read;
}

}  // namespace weir::cpu

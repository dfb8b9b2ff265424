// Chooses which test tells a link's messages, its rings and its switch, and puts them together.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/measured_link.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>
#include <vector>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// Tests that pass a link's whole ring, best first: an all_reduce may be helped by a switch, a
// broadcast's latency is one of many small pieces, and an all-to-all is no ring.
constexpr std::array<std::string_view, 6> kRings{"all_gather", "reduce_scatter", "all_reduce",
                                                 "broadcast",  "alltoall",       "reduce"};
// No message is larger: what was measured up to any size holds for all.
constexpr Bytes kAnySize(std::int64_t{1} << 40);
// How much faster than rings an all_reduce must be to be the switch's work: rings of one node
// differ by a few per cent.
constexpr double kSwitchGain = 1.1;

int devices_a_node(const NcclTest& test) { return std::max(1, test.ranks / test.nodes); }

BytesPerSecond bus_rate(const FittedTest& t) {
  const BytesPerSecond rate = t.fit.ranges.back().bandwidth;
  if (rate.count() <= 0) {
    throw InputError(t.file, t.test.collective,
                     "its times do not grow with the size: no bandwidth can be told");
  }
  return rate;
}

// A device's share of what the ring, or the all-to-all, reaches between nodes.
BytesPerSecond device_share(const FittedTest& t) {
  const double bus = bus_rate(t).count();
  if (t.test.nodes == 1) return BytesPerSecond(bus);
  const double p = t.test.ranks, in_node = devices_a_node(t.test);
  if (t.test.collective == "alltoall") return BytesPerSecond(bus * (p - in_node) / (p - 1));
  return BytesPerSecond(bus / in_node);
}

// The latency of a step over this link by which the forecast of the smallest message is what was
// measured; nullopt where only large ones were, or nothing is left for the link.
std::optional<Seconds> step_latency(const FittedTest& t, Seconds within) {
  const std::string& name = t.test.collective;
  if (!t.fit.latency_known || name == "broadcast" || name == "reduce") return std::nullopt;
  const double whole = t.fit.ranges.front().latency.count(), p = t.test.ranks;
  const double in_node = t.test.nodes > 1 ? devices_a_node(t.test) : 1;
  double step = 0;
  if (name == "all_reduce" && in_node > 1) {
    step = (whole / 2 - (in_node - 1) * within.count()) / (t.test.nodes - 1);  // two levels
  } else if (name == "all_reduce") {
    step = whole / (2 * std::bit_width(static_cast<unsigned>(t.test.ranks - 1)));  // double tree
  } else if (name == "alltoall") {
    step = whole / (p - in_node);
  } else {  // a ring: one step in `in_node` is over this link
    step = in_node * whole / (p - 1) - (in_node - 1) * within.count();
  }
  // Nothing left for the link: the latency within nodes explains all of it.
  return step > 0 ? std::optional(Seconds(step)) : std::nullopt;
}

std::string described(const FittedTest& t) {
  return fmt::format(
      "nccl-tests {} of {} x {} on {} node{}, {} samples up to {}, median residual {:.1f} % ({})",
      t.test.collective, t.test.ranks, t.test.device, t.test.nodes, t.test.nodes == 1 ? "" : "s",
      t.test.samples.size(), format_bytes(t.test.samples.back().size),
      100 * t.fit.ranges.back().median_residual, t.file);
}

class Assembly {
 public:
  Assembly(std::span<const FittedTest> tests, const LinkPlace& place)
      : place_(place),
        link_(place.before),
        apart_(!link_.regimes.empty() && link_.regimes.back().up_to >= kAnySize) {
    for (const FittedTest& t : tests) {
      if ((t.test.nodes > 1) == place.between_nodes) consider(t);
    }
    find_switch();
  }

  std::optional<MeasuredLink> measured() {
    if (messages_ == nullptr && ring_ == nullptr && switch_ == nullptr) return std::nullopt;
    if (ring_ != nullptr) take_ring();
    if (messages_ != nullptr) take_messages();
    if (switch_ != nullptr) take_switch();
    const FittedTest* first = ring_ != nullptr ? ring_ : messages_ != nullptr ? messages_ : switch_;
    return MeasuredLink{std::move(link_), fmt::format("{}", fmt::join(origin_, "; ")), first};
  }

 private:
  void consider(const FittedTest& t) {
    if (t.test.collective == "sendrecv" && messages_ == nullptr) messages_ = &t;
    if (t.test.collective == "all_reduce" &&
        (reduces_ == nullptr || t.test.ranks > reduces_->test.ranks))
      reduces_ = &t;
    const auto place = std::ranges::find(kRings, t.test.collective);
    if (place == kRings.end()) return;
    // As many of a node's devices as can be, for they share its cards; then the surer test.
    const auto order = [](const FittedTest& other) {
      return std::tuple(-devices_a_node(other.test),
                        std::ranges::find(kRings, other.test.collective) - kRings.begin());
    };
    if (ring_ == nullptr || order(t) < order(*ring_)) ring_ = &t;
  }

  // Within a node an all_reduce is the switch's work where the cluster says that there is one, or
  // where rings beside it are slower.
  void find_switch() {
    if (place_.between_nodes || reduces_ == nullptr) return;
    const auto& known = place_.before.switch_reduction;
    const bool by_switch = known ? reduces_->test.ranks >= known->members
                                 : ring_ != reduces_ && bus_rate(*reduces_).count() >
                                                            kSwitchGain * bus_rate(*ring_).count();
    if (!by_switch) return;
    switch_ = reduces_;
    if (ring_ == reduces_) ring_ = nullptr;
  }

  void take_ring() {
    link_.bandwidth = device_share(*ring_);
    link_.efficiency = 1;  // what was measured is no share of a datasheet's rate
    origin_.push_back(described(*ring_));
    const int in_node = devices_a_node(ring_->test);
    if (place_.between_nodes && ring_->test.collective != "alltoall" && in_node > 1) {
      origin_.push_back(
          fmt::format("{:.4g} GB/s of the ring over {} devices a node that share its cards, {:.4g} "
                      "GB/s each",
                      bus_rate(*ring_).count() / 1e9, in_node, link_.bandwidth.count() / 1e9));
    }
    if (place_.between_nodes && in_node != place_.devices_per_node) {
      origin_.push_back(
          fmt::format("measured with {} of {} devices a node: how all of them share "
                      "its cards is not told",
                      in_node, place_.devices_per_node));
    }
    if (ring_->test.collective == "all_reduce")
      origin_.emplace_back("all_gather and reduce_scatter are taken to be as fast");
    if (const auto step = step_latency(*ring_, place_.within)) {
      link_.latency = *step;
    } else {
      origin_.push_back(fmt::format("it tells no latency, which stays {}",
                                    format_duration(place_.before.latency)));
    }
    if (messages_ == nullptr) {
      origin_.emplace_back(
          apart_ ? "messages stay as they were: no sendrecv was measured"
                 : "the rate of large messages only, taken to be a ring's: no sendrecv was "
                   "measured");
    }
  }

  // Where no ring was measured, a message's own test stands for both, unless several devices of
  // each node sent at once, or the link already tells the two apart.
  void take_messages() {
    const FittedTest& m = *messages_;
    const bool stands_for_rings =
        ring_ == nullptr && !apart_ && (m.test.nodes == 1 || m.test.nodes == m.test.ranks);
    const Link& before = place_.before;
    const Seconds known = before.regimes.empty() ? before.latency : before.regimes.front().latency;
    // For its checks alone.
    static_cast<void>(bus_rate(m));
    const Link told = to_link(m.fit, known);
    link_.regimes = told.regimes;
    origin_.push_back(stands_for_rings ? described(m) : "messages by " + described(m));
    if (!m.fit.latency_known) {
      origin_.push_back(fmt::format("below {} from the latency it had",
                                    format_bytes(m.fit.ranges.front().smallest)));
    }
    if (stands_for_rings) {
      link_.latency = told.latency;
      link_.bandwidth = told.bandwidth;
      link_.efficiency = 1;
      return;
    }
    // Rings keep constants of their own: the last range is the messages', without an end.
    link_.regimes.push_back({kAnySize, told.latency, told.bandwidth});
    if (ring_ == nullptr && apart_) {
      origin_.emplace_back("rings stay as they were: no collective was measured");
    } else if (ring_ == nullptr) {
      origin_.push_back(
          fmt::format("rings stay as they were: {} devices a node that send at once tell none",
                      devices_a_node(m.test)));
    }
  }

  void take_switch() {
    const auto& known = place_.before.switch_reduction;
    const FittedTest& t = *switch_;
    SwitchReduction reduction{known ? known->members : t.test.ranks,
                              known ? known->latency : link_.latency * 2.0, bus_rate(t)};
    if (t.fit.latency_known) reduction.latency = t.fit.ranges.front().latency;
    link_.switch_reduction = reduction;
    origin_.push_back("the switch's sums by " + described(t));
    if (ring_ == nullptr && messages_ == nullptr)
      origin_.emplace_back("the link itself stays as it was: the switch's all_reduce tells none");
  }

  const LinkPlace& place_;
  Link link_;
  bool apart_;  // regimes for messages of any size: rings take the rest
  const FittedTest *messages_ = nullptr, *ring_ = nullptr, *reduces_ = nullptr, *switch_ = nullptr;
  std::vector<std::string> origin_;
};

}  // namespace

std::optional<MeasuredLink> measured_link(std::span<const FittedTest> tests,
                                          const LinkPlace& place) {
  return Assembly(tests, place).measured();
}

}  // namespace weir

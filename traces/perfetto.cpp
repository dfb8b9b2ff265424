// Field numbers are those of perfetto_trace.proto (Trace, TracePacket, TrackDescriptor, TrackEvent,
// CounterDescriptor).
// SPDX-License-Identifier: Apache-2.0
#include "traces/perfetto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace weir {
namespace {

// A protobuf message being written: varints (wire type 0), fixed64 (1) and length-delimited fields
// (2).
class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    raw(static_cast<std::uint64_t>(field) << 3);  // a key: field number, then wire type in 3 bits
    raw(value);
    return *this;
  }
  Message& fixed64(int field, std::uint64_t value) {
    raw(static_cast<std::uint64_t>(field) << 3 | 1);
    for (int byte = 0; byte < 8; ++byte) bytes_ += static_cast<char>(value >> (8 * byte) & 0xFF);
    return *this;
  }
  Message& text(int field, const std::string& value) {
    raw(static_cast<std::uint64_t>(field) << 3 | 2);
    raw(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void raw(std::uint64_t value) {
    while (value >= 0x80) {  // seven bits a byte, the lowest first; the top bit says more follow
      bytes_ += static_cast<char>((value & 0x7F) | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

enum EventType : std::uint8_t { slice_begin = 1, slice_end = 2, counter_value = 4 };
constexpr std::uint64_t kExplicitOrder = 3;  // TrackDescriptor.ChildTracksOrdering.EXPLICIT

class Writer {
 public:
  explicit Writer(std::span<const Trace* const> traces) : traces_(traces) {
    // Descriptor 0 orders processes and threads explicitly.
    packet(Message().message(60, Message().varint(1, 0).varint(19, 1).varint(20, 1)), false);
    std::int32_t ranks = 0;
    for (const Trace* trace : traces) ranks = std::max(ranks, trace->ranks);
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t t = 0; t < traces.size(); ++t) {
        if (rank < traces[t]->ranks) write_rank(t, rank);
      }
    }
  }
  [[nodiscard]] const std::string& bytes() const { return out_; }

 private:
  void packet(Message inner, bool sequenced = true) {
    if (sequenced) inner.varint(10, 1);
    out_ += Message().message(1, inner).bytes();
  }

  void write_rank(std::size_t t, std::int32_t rank) {
    const Trace& trace = *traces_[t];
    const std::uint64_t process = next_uuid_++;
    const char* origin = trace.origin == TraceOrigin::predicted ? "predicted" : "measured";
    packet(Message().message(
        60,
        Message()
            .varint(1, process)
            .message(3,
                     Message().varint(1, process).text(6, fmt::format("rank {} {}", rank, origin)))
            .varint(11, kExplicitOrder)
            .varint(12, process)));
    std::map<std::tuple<LaneKind, std::int32_t>, std::vector<const Span*>> lanes;
    for (const Span& span : trace.spans) {
      if (span.rank.value == rank) lanes[{span.lane, span.peer.value}].push_back(&span);
    }
    std::uint64_t order = 0;
    for (auto& [key, spans] : lanes) write_lane(t, process, order++, key, spans);
    for (const Counter& counter : trace.counters) {
      if (counter.rank.value == rank) write_counter(process, order++, counter);
    }
  }

  void write_lane(std::size_t t, std::uint64_t process, std::uint64_t order,
                  const std::tuple<LaneKind, std::int32_t>& key, std::vector<const Span*>& spans) {
    const auto [kind, peer] = key;
    const std::uint64_t track = next_uuid_++;
    std::string name(to_string(kind));
    if (kind == LaneKind::send) name += fmt::format(" to {}", peer);
    if (kind == LaneKind::receive) name += fmt::format(" from {}", peer);
    packet(Message().message(
        60, Message().varint(1, track).text(2, name).varint(5, process).varint(12, order)));
    // Slices of a track nest by order in the file: it has to be that of their starts.
    std::ranges::stable_sort(spans, {}, &Span::start);
    for (const Span* span : spans) {
      Message begin;
      begin.varint(9, slice_begin)
          .varint(11, track)
          .text(22, std::string(to_string(span->action.kind)));
      begin.text(23, to_string(span->action));
      if (kind == LaneKind::send) begin.fixed64(47, flow_id(t, *span, span->rank, span->peer));
      if (kind == LaneKind::receive) begin.fixed64(48, flow_id(t, *span, span->peer, span->rank));
      packet(Message().varint(8, time(span->start)).message(11, begin));
      packet(Message()
                 .varint(8, time(span->end))
                 .message(11, Message().varint(9, slice_end).varint(11, track)));
    }
  }

  // One number per message: what is sent, by whom to whom, in which step of which trace.
  std::uint64_t flow_id(std::size_t t, const Span& span, Rank from, Rank to) {
    const bool forward =
        span.action.kind == ActionKind::SEND_F || span.action.kind == ActionKind::RECV_F;
    const bool send = is_send(span.action.kind);
    // Both ends must get one number: they are keyed by the stage that sends, forwards the one
    // before the receiver's, backwards the one after; a skip's says it.
    const Stage neighbour = forward ? span.action.stage - 1 : span.action.stage + 1;
    const Stage other = is_skip(span.action) ? span.action.other : neighbour;
    const std::int32_t sender = (send ? span.action.stage : other).value;
    const auto [at, fresh] = flows_.try_emplace(
        {t, span.step, from.value, to.value, sender, forward, span.action.microbatch.value},
        flows_.size() + 1);
    return at->second;
  }

  void write_counter(std::uint64_t process, std::uint64_t order, const Counter& counter) {
    const std::uint64_t track = next_uuid_++;
    const std::uint64_t unit = counter.unit == CounterUnit::bytes ? 3 : 2;
    packet(Message().message(60, Message()
                                     .varint(1, track)
                                     .text(2, counter.name)
                                     .varint(5, process)
                                     .message(8, Message().varint(3, unit))
                                     .varint(12, order)));
    for (const Counter::Sample& sample : counter.samples) {
      packet(Message()
                 .varint(8, time(sample.time))
                 .message(11, Message()
                                  .varint(9, counter_value)
                                  .varint(11, track)
                                  .varint(30, static_cast<std::uint64_t>(sample.value))));
    }
  }

  // Timestamps are unsigned: traces begin a second after zero.
  static std::uint64_t time(Nanoseconds value) {
    return static_cast<std::uint64_t>(value.count() + 1'000'000'000);
  }

  std::span<const Trace* const> traces_;
  std::string out_;
  std::uint64_t next_uuid_ = 1;
  std::map<std::tuple<std::size_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t, bool,
                      std::int32_t>,
           std::uint64_t>
      flows_;
};

}  // namespace

std::string to_perfetto(std::span<const Trace* const> traces) { return Writer(traces).bytes(); }

}  // namespace weir

// Kineto files of a run that never was: a program with known durations, transfers, waits and
// clocks, written as PyTorch's profiler would have written it, one file a rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "plan/program/program.hpp"

namespace weir {

enum class Naming { pipelining, none };  // PP: ranges, or kernels only
enum class Sending {
  alone,
  batched
};  // a kernel a message, or one for the send and the receive between two actions
enum class Optimizing { marked, unmarked };  // within Optimizer.step, or merely launched last

struct SyntheticRun {
  Program program;
  Naming naming = Naming::pipelining;
  Sending sending = Sending::alone;
  Optimizing optimizing = Optimizing::marked;
  int steps = 2;
  int first_step = 3;                  // ProfilerStep#3; below 0: the file has no such ranges
  std::int64_t transfer_ns = 20'000;   // of every message
  std::int64_t end_jitter_ns = 0;      // the two kernels of a message end up to this far apart
  std::vector<std::int64_t> clock_ns;  // a rank's clock is ahead of the true one by this
  std::vector<std::int64_t> base_ns;   // baseTimeNanoseconds of its file
  std::int64_t drift_ns = 0;           // a step that rank r's clock gains on rank 0's, times r
  bool transfer_ranges = false;        // "nccl:send 0->1" around a kernel's launch
  int world_size = 0;                  // 0: as many as ranks
  std::uint32_t seed = 1;

  // Filled by lay_out(): true times, per step and operation. A send or receive is its kernel,
  // waiting included.
  struct Time {
    std::int64_t start = 0, end = 0;
  };
  std::vector<std::vector<Time>> truth;

  std::int64_t duration(OperationId id) {
    switch (program.op(id).action.kind) {
      case ActionKind::F:
        return 100'000 + draw(9'999);
      case ActionKind::OPTIMIZER:
        return 60'000;
      case ActionKind::R:
        return 0;  // part of the backward, see lay_out
      default:
        return 200'000 + draw(9'999);
    }
  }
  std::int64_t draw(std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random_);
  }

  // Operations of a rank in the order in which its CPU launches them: receives before, sends after.
  [[nodiscard]] std::vector<std::vector<OperationId>> launch_groups(Rank rank) const {
    std::vector<std::vector<OperationId>>
        groups;  // one kernel launch for transfers of a group; compute stands alone
    std::vector<OperationId> sends;
    for (const Lane& lane : program.lanes()) {
      if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
      for (const OperationId id : lane.operations()) {
        if (action(id).kind == ActionKind::R) continue;
        std::vector<OperationId> between = sends;
        for (const Dependency& d : program.predecessors(id)) {
          if (program.lane_of(d.before).kind == LaneKind::receive) between.push_back(d.before);
        }
        if (sending == Sending::batched && !between.empty()) groups.push_back(between);
        if (sending == Sending::alone) {
          for (const OperationId transfer : between) groups.push_back({transfer});
        }
        groups.push_back({id});
        sends.clear();
        for (OperationId other; other < OperationId{program.size()}; ++other) {
          if (program.lane_of(other).kind != LaneKind::send || program.rank_of(other) != rank)
            continue;
          for (const Dependency& d : program.predecessors(other)) {
            if (d.before == id && d.kind == DependencyKind::data) sends.push_back(other);
          }
        }
      }
    }
    return groups;
  }

  // True times by relaxation: every start is pushed back until all that it waits for has ended.
  void lay_out() {
    random_.seed(seed);
    truth.clear();
    const std::size_t count = program.size();
    std::int64_t begin = 1'000'000;
    for (int step = 0; step < steps; ++step) {
      std::vector<std::int64_t> length(count), jitter(count);
      for (std::size_t i = 0; i < count; ++i) {
        length[i] = duration(OperationId{i});
        jitter[i] = draw(end_jitter_ns);
      }
      for (std::size_t i = 0; i < count;
           ++i) {  // R takes exactly its F's time, and stands before its backward
        if (program.op(OperationId{i}).action.kind != ActionKind::R) continue;
        for (std::size_t f = 0; f < count; ++f) {
          const Action& other = program.op(OperationId{f}).action;
          if (other.kind == ActionKind::F &&
              other.stage == program.op(OperationId{i}).action.stage &&
              other.microbatch == program.op(OperationId{i}).action.microbatch)
            length[i] = length[f];
        }
      }
      std::vector<Time> times(count, Time{begin, begin});
      for (bool changed = true; changed;) {
        changed = false;
        for (std::int32_t r = 0; r < program.shape().ranks; ++r)
          changed |= relax_rank(Rank{r}, length, times);
        for (const Edge& edge : program.edges()) {
          const Lane& send = program.lane(edge.send_lane);
          const Lane& receive = program.lane(edge.receive_lane);
          for (OperationId sent = send.first, got = receive.first; sent < send.last;
               ++sent, ++got) {
            const auto s = sent.position(), d = got.position();
            const std::int64_t there = std::max(times[s].start, times[d].start) + transfer_ns;
            changed |= push(times[s].end, there + jitter[s]);
            changed |= push(times[d].end, there + jitter[d]);
          }
        }
      }
      for (const Time& time : times) begin = std::max(begin, time.end);
      begin += 50'000;
      truth.push_back(times);
    }
  }

  // Text of one rank's file. `padding` adds that many events that no reader needs.
  [[nodiscard]] std::string file_of(Rank rank, int padding = 0) const {
    const auto r = static_cast<std::size_t>(rank.value);
    std::string text = fmt::format(
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{{\"id\": 0, \"name\": \"H100\", "
        "\"numSms\": 132}}],\n"
        "  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}, "
        "\"pg_config\": "
        "[{{\"pg_name\": \"0\", \"ranks\": [0, 1]}}]}},\n  \"traceEvents\": [\n",
        rank.value * (world_size > 0 ? world_size / program.shape().ranks : 1),
        world_size > 0 ? world_size : program.shape().ranks);
    for (int i = 0; i < padding; ++i) {
      text += fmt::format(
          "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op{0}\", \"pid\": 9, \"tid\": "
          "9, "
          "\"ts\": {0}.125, \"dur\": 1.0, \"args\": {{\"External id\": {0}, \"Input Dims\": [[{0}, "
          "4], []], "
          "\"Concrete Inputs\": [\"\", \"[1]\"]}}}},\n",
          i);
    }
    Writer writer{text, clock(r), 1000};
    for (int step = 0; step < steps; ++step) {
      write_step(rank, step, writer);
      writer.clock += drift_ns * rank.value;
    }
    text += fmt::format(
        "{{\"ph\": \"i\", \"name\": \"end\", \"ts\": 0.5, \"pid\": \"\", \"tid\": \"Traces\", "
        "\"s\": \"g\"}}"
        "\n  ],\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {}\n}}\n",
        base(r));
    return text;
  }

  [[nodiscard]] std::int64_t base(std::size_t r) const {
    return r < base_ns.size() ? base_ns[r] : 0;
  }
  [[nodiscard]] std::int64_t clock(std::size_t r) const {
    return r < clock_ns.size() ? clock_ns[r] : 0;
  }

 private:
  static constexpr int kMain = 71, kAutograd = 82;

  struct Writer {
    std::string& text;
    std::int64_t clock;
    std::int64_t correlation;

    void event(const char* category, const std::string& name, int thread, std::int64_t start,
               std::int64_t end, const std::string& args = "") const {
      text += fmt::format(
          "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 1, \"tid\": {}, \"ts\": "
          "{}, \"dur\": {}{}}},\n",
          category, name, thread, microseconds(start + clock), microseconds(end - start),
          args.empty() ? "" : ", \"args\": {" + args + "}");
    }
    static std::string microseconds(std::int64_t ns) {
      return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
    }
    void kernel(const std::string& name, int thread, std::int64_t launched, std::int64_t start,
                std::int64_t end) {
      ++correlation;
      const std::string args =
          fmt::format("\"External id\": 7, \"correlation\": {}, \"grid\": [4, 1, 1]", correlation);
      event("kernel", name, 7, start, end, args + ", \"stream\": 7");
      event("cuda_runtime", "cudaLaunchKernel", thread, launched, launched + 400,
            args + ", \"cbid\": 211");
    }
  };

  [[nodiscard]] const Action& action(OperationId id) const { return program.op(id).action; }
  static bool push(std::int64_t& value, std::int64_t to) {
    if (value >= to) return false;
    value = to;
    return true;
  }

  // The compute stream runs in order; a batch of transfers starts when what it sends is there and
  // ends as one; transfers of one lane follow one another.
  [[nodiscard]] bool relax_rank(Rank rank, const std::vector<std::int64_t>& length,
                                std::vector<Time>& times) const {
    bool changed = false;
    for (const Lane& lane : program.lanes()) {
      if (lane.rank != rank) continue;
      for (const OperationId id : lane.operations()) {
        Time& time = times[id.position()];
        if (id > lane.first) changed |= push(time.start, times[id.position() - 1].end);
        for (const Dependency& d : program.predecessors(id)) {
          if (d.kind != DependencyKind::data && d.kind != DependencyKind::gradient) continue;
          changed |= push(time.start, times[d.before.position()].end);
          // R is part of the backward: it waits for the gradient too.
          if (lane.kind == LaneKind::compute && id > lane.first &&
              action(id - 1).kind == ActionKind::R)
            changed |= push(times[id.position() - 1].start, times[d.before.position()].end);
        }
        if (lane.kind == LaneKind::compute || lane.kind == LaneKind::reduce)
          changed |= push(time.end, time.start + length[id.position()]);
      }
    }
    for (const auto& group : launch_groups(rank)) {
      std::int64_t start = 0, end = 0;
      for (const OperationId id : group) {
        start = std::max(start, times[id.position()].start);
        end = std::max(end, times[id.position()].end);
      }
      if (group.size() == 1) continue;
      for (const OperationId id : group) {
        changed |= push(times[id.position()].start, start);
        changed |= push(times[id.position()].end, end);
      }
    }
    return changed;
  }

  void write_step(Rank rank, int step, Writer& writer) const {
    const auto& times = truth[static_cast<std::size_t>(step)];
    std::int64_t first = times.front().start;
    for (const Time& time : times) first = std::min(first, time.start);
    std::int64_t cpu = first - 40'000;  // the CPU runs ahead of the GPU
    const std::int64_t opened = cpu;
    if (rank.value > 0)
      writer.kernel("zero_", kMain, cpu += 500, first - 30'000, first - 29'000);  // no action's
    for (const auto& group : launch_groups(rank)) {
      const Action& done = action(group.front());
      const Time& time = times[group.front().position()];
      const std::int64_t start_of_range = cpu += 500;
      if (is_send(done.kind) || is_receive(done.kind)) {
        writer.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", kMain, cpu += 500,
                      time.start, time.end);
        if (transfer_ranges)
          writer.event("user_annotation", is_send(done.kind) ? "nccl:send 0->1" : "nccl:recv 0<-1",
                       kMain, cpu - 100, cpu + 100);
      } else {
        const int thread = is_backward(done.kind) || done.kind == ActionKind::W ? kAutograd : kMain;
        std::int64_t start = time.start;
        if (is_backward(done.kind) && group.front() > OperationId{0} &&
            action(group.front() - 1).kind == ActionKind::R &&
            program.lane_of(group.front() - 1).rank == rank)
          start = times[group.front().position() - 1].start;
        const std::int64_t half = (start + time.end) / 2;
        writer.kernel("gemm", thread, cpu += 500, start, half);
        writer.kernel("relu", thread, cpu += 500, half, time.end);
        if (naming == Naming::none && is_backward(done.kind))  // the loss is scaled: no action's
          writer.kernel("scale_", kMain, cpu += 500, time.end, time.end + 10);
      }
      cpu += 500;
      const bool optimizer = done.kind == ActionKind::OPTIMIZER;
      if (optimizer && optimizing == Optimizing::marked)
        writer.event("user_annotation", "Optimizer.step#AdamW.step", kMain, start_of_range, cpu);
      if (!optimizer && naming == Naming::pipelining)
        writer.event("user_annotation", "PP:" + to_string(done), kMain, start_of_range, cpu);
    }
    if (first_step >= 0)
      writer.event("user_annotation", fmt::format("ProfilerStep#{}", first_step + step), kMain,
                   opened, cpu + 500);
  }

  std::mt19937 random_;
};

inline void write_gzip(const std::filesystem::path& file, const std::string& text) {
  gzFile out = gzopen(file.c_str(), "wb1");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
}

inline void write_plain(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace weir

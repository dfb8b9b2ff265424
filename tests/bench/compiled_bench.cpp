// The compiled engine against its limit: a loop written by hand for 1F1B, over the same order, with
// the same messages (occupancy and latency) and nothing else. All candidates differ in every cost,
// and packing them is part of the time.
//
//   candidate / (K, M)   one candidate at a time: compiled, compiled without jumps, scalar limit
//   batch / (K, M)       64 candidates: compiled, compiled without jumps, eight-lane limit
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/multiversion.hpp"
#include "sim/engine/compiled_engine.hpp"
#include "sim/engine/event_engine.hpp"

namespace {

using namespace weir;

constexpr std::size_t kBatch = 64;

struct Case {
  Program program;
  CompiledProgram compiled;
  std::vector<CostTable> tables;
};

Case make_case(const benchmark::State& state, const char* schedule = "1f1b", int chunks = 1) {
  const auto k = static_cast<int>(state.range(0)), m = static_cast<int>(state.range(1));
  LoweringOptions options;
  options.slots = 0;
  options.optimizer = false;
  Case c{lower(std::get<Schedule>(make_schedule(schedule, {k, chunks, m})), options), {}, {}};
  c.compiled = std::get<CompiledProgram>(compile(c.program));
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return Nanoseconds(std::uniform_int_distribution<int>(low, high)(random));
  };
  for (std::size_t i = 0; i < kBatch; ++i) {
    CostTable table;
    for (std::int32_t s = 0; s < c.program.shape().stages; ++s) {
      table.stages.push_back({{.f = draw(900, 1100), .b = draw(1800, 2200)}});
      table.forward_messages.push_back({draw(10, 50), draw(1, 9)});
      table.backward_messages.push_back({draw(10, 50), draw(1, 9)});
    }
    c.tables.push_back(std::move(table));
  }
  return c;
}

// One action of the hand-written loop: its rank, where its input arrived, where its output goes,
// over which edge.
struct Step {
  std::uint32_t rank, in, out, edge, cost;
};

struct ByHand {
  std::vector<Step> steps;
  std::size_t cells = 0, ranks = 0;

  explicit ByHand(const Case& c) {
    const auto k = static_cast<std::uint32_t>(c.program.shape().ranks);
    const auto m = static_cast<std::uint32_t>(c.program.shape().microbatches);
    ranks = k;
    const auto forward = [m](std::uint32_t s, std::uint32_t i) { return 2 + s * m + i; };
    const auto backward = [m, k](std::uint32_t s, std::uint32_t i) { return 2 + (k + s) * m + i; };
    cells = 2 + 2ULL * k * m;
    const Schedule schedule =
        std::get<Schedule>(make_schedule("1f1b", {static_cast<int>(k), 1, static_cast<int>(m)}));
    // The compiled order: ranks in turn, one action each, as soon as its input is there.
    std::vector<std::size_t> next(k, 0);
    std::vector<char> there(cells, 0);
    for (bool any = true; any;) {
      any = false;
      for (std::uint32_t r = 0; r < k; ++r) {
        if (next[r] == schedule.order[Rank{r}].size()) continue;
        const Action& action = schedule.order[Rank{r}][next[r]];
        const auto i = static_cast<std::uint32_t>(action.microbatch.value);
        const bool f = action.kind == ActionKind::F;
        const std::uint32_t in =
            f ? (r == 0 ? 0 : forward(r, i)) : (r + 1 == k ? 0 : backward(r, i));
        if (in != 0 && there[in] == 0) continue;
        const std::uint32_t out =
            f ? (r + 1 == k ? 1 : forward(r + 1, i)) : (r == 0 ? 1 : backward(r - 1, i));
        there[out] = 1;
        steps.push_back({r, in, out, 2 * r + (f ? 0U : 1U), 2 * r + (f ? 0U : 1U)});
        ++next[r];
        any = true;
      }
    }
  }

  template <class Value>
  [[gnu::always_inline]] inline void run(Value* cell, Value* rank_free, Value* edge_free,
                                         const Value* cost, const Value* occupancy,
                                         const Value* latency, Value* makespan) const {
    Value end{};
    for (const Step& step : steps) {
      const Value a = rank_free[step.rank], b = cell[step.in];
      const Value t = (a > b ? a : b) + cost[step.cost];
      rank_free[step.rank] = t;
      const Value e = edge_free[step.edge];
      const Value s = (e > t ? e : t) + occupancy[step.edge];
      edge_free[step.edge] = s;
      cell[step.out] = s + latency[step.edge];
    }
    for (std::size_t r = 0; r < ranks; ++r) end = rank_free[r] > end ? rank_free[r] : end;
    *makespan = end;
  }

  void read(const CostTable& table, std::int64_t* cost, std::int64_t* occupancy,
            std::int64_t* latency, std::size_t stride) const {
    for (std::size_t r = 0; r < ranks; ++r) {
      cost[2 * r * stride] = table.stages[r].f.count();
      cost[(2 * r + 1) * stride] = table.stages[r].b.count();
      occupancy[2 * r * stride] = table.forward_messages[r].occupancy.count();
      occupancy[(2 * r + 1) * stride] = table.backward_messages[r].occupancy.count();
      latency[2 * r * stride] = table.forward_messages[r].latency.count();
      latency[(2 * r + 1) * stride] = table.backward_messages[r].latency.count();
    }
  }
};

using Eight = std::int64_t __attribute__((vector_size(64)));

WEIR_MULTIVERSION void run_eight(const ByHand* hand, std::int64_t* cell, std::int64_t* rank_free,
                                 std::int64_t* edge_free, const std::int64_t* cost,
                                 const std::int64_t* occupancy, const std::int64_t* latency,
                                 std::int64_t* end) {
  const auto in = [](const std::int64_t* lanes) { return reinterpret_cast<const Eight*>(lanes); };
  const auto out = [](std::int64_t* lanes) { return reinterpret_cast<Eight*>(lanes); };
  hand->run<Eight>(out(cell), out(rank_free), out(edge_free), in(cost), in(occupancy), in(latency),
                   out(end));
}

void report(benchmark::State& state, const Case& c, std::size_t candidates) {
  state.SetItemsProcessed(static_cast<std::int64_t>(candidates) * state.iterations());
  state.counters["operations"] = static_cast<double>(c.program.size());
}

void candidate_compiled(benchmark::State& state, Periodicity periodicity) {
  const Case c = make_case(state);
  CompiledEngine engine(c.compiled, periodicity);
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(engine.makespan(c.tables[i++ % kBatch]));
  report(state, c, 1);
  state.counters["bytes/operation"] =
      static_cast<double>(c.compiled.bytes()) / static_cast<double>(c.program.size());
}
void candidate_by_hand(benchmark::State& state) {
  const Case c = make_case(state);
  const ByHand hand(c);
  std::vector<std::int64_t> cell(hand.cells), rank_free(hand.ranks), edge_free(2 * hand.ranks),
      cost(2 * hand.ranks), occupancy(2 * hand.ranks), latency(2 * hand.ranks);
  const auto run = [&](const CostTable& table) {
    hand.read(table, cost.data(), occupancy.data(), latency.data(), 1);
    std::fill(rank_free.begin(), rank_free.end(), 0);
    std::fill(edge_free.begin(), edge_free.end(), 0);
    std::int64_t end = 0;
    hand.run<std::int64_t>(cell.data(), rank_free.data(), edge_free.data(), cost.data(),
                           occupancy.data(), latency.data(), &end);
    return end;
  };
  if (run(c.tables[0]) != CompiledEngine(c.compiled).makespan(c.tables[0]).count())
    state.SkipWithError("differs");
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(run(c.tables[i++ % kBatch]));
  report(state, c, 1);
}

void batch_compiled(benchmark::State& state, Periodicity periodicity) {
  const Case c = make_case(state);
  CompiledEngine engine(c.compiled, periodicity);
  std::vector<Nanoseconds> out(kBatch);
  for (auto _ : state) {
    engine.makespans(c.tables, out);
    benchmark::DoNotOptimize(out.data());
  }
  report(state, c, kBatch);
}
struct alignas(64) Lanes {
  std::int64_t of[8];
};

void batch_by_hand(benchmark::State& state) {
  const Case c = make_case(state);
  const ByHand hand(c);
  std::vector<Lanes> cell(hand.cells), rank_free(hand.ranks), edge_free(2 * hand.ranks),
      cost(2 * hand.ranks), occupancy(2 * hand.ranks), latency(2 * hand.ranks);
  Lanes end{};
  const std::int64_t expected = CompiledEngine(c.compiled).makespan(c.tables[0]).count();
  for (auto _ : state) {
    for (std::size_t first = 0; first < kBatch; first += 8) {
      for (std::size_t lane = 0; lane < 8; ++lane) {
        const auto column = [lane](std::vector<Lanes>& values) { return &values[0].of[lane]; };
        hand.read(c.tables[first + lane], column(cost), column(occupancy), column(latency), 8);
      }
      std::fill(rank_free.begin(), rank_free.end(), Lanes{});
      std::fill(edge_free.begin(), edge_free.end(), Lanes{});
      run_eight(&hand, cell[0].of, rank_free[0].of, edge_free[0].of, cost[0].of, occupancy[0].of,
                latency[0].of, end.of);
      if (first == 0 && end.of[0] != expected) state.SkipWithError("differs");
      benchmark::DoNotOptimize(end);
    }
  }
  report(state, c, kBatch);
}

// Cost of an operation as programs grow: M from 32 to 8192 at K = 16 is 4 thousand to 1 million
// compute actions.
void growth(benchmark::State& state) {
  const Case c = make_case(state);
  CompiledEngine engine(c.compiled, Periodicity::walk);
  std::vector<Nanoseconds> out(kBatch);
  for (auto _ : state) benchmark::DoNotOptimize(engine.makespan(c.tables[0]));
  state.counters["ns/operation"] = benchmark::Counter(
      1e-9 * static_cast<double>(c.program.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void compilation(benchmark::State& state) {
  const Case c = make_case(state);
  for (auto _ : state) benchmark::DoNotOptimize(compile(c.program));
  report(state, c, 1);
}

BENCHMARK_CAPTURE(candidate_compiled, jump, Periodicity::jump)->Args({16, 128})->Args({8, 32});
BENCHMARK_CAPTURE(candidate_compiled, walk, Periodicity::walk)->Args({16, 128})->Args({8, 32});
BENCHMARK(candidate_by_hand)->Args({16, 128})->Args({8, 32});
BENCHMARK_CAPTURE(batch_compiled, jump, Periodicity::jump)->Args({16, 128})->Args({8, 32});
BENCHMARK_CAPTURE(batch_compiled, walk, Periodicity::walk)->Args({16, 128})->Args({8, 32});
BENCHMARK(batch_by_hand)->Args({16, 128})->Args({8, 32});
BENCHMARK(growth)->Args({16, 128})->Args({16, 1024})->Args({16, 8192})->Args({16, 32768});
BENCHMARK(compilation)->Args({16, 128})->Args({64, 1024});

}  // namespace

BENCHMARK_MAIN();

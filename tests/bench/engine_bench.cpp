// The event engine, lowering and judging, per action: 1F1B with constant costs and private links.
// An action is any operation of the program, messages included. `bytes/action` is the most memory
// held at once beyond what was there before: by the engine for event_engine, by the program too for
// program_and_engine.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/validate.hpp"
#include "sim/engine/event_engine.hpp"

namespace {

std::size_t held = 0, most_held = 0;

}  // namespace

// Counts what is held, in the sizes that malloc gave. One thread.
void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  held += malloc_usable_size(memory);
  most_held = held > most_held ? held : most_held;
  return memory;
}
void operator delete(void* memory) noexcept {
  held -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

using namespace weir;

Schedule schedule_for(const benchmark::State& state) {
  return std::get<Schedule>(make_schedule(
      "1f1b", {static_cast<int>(state.range(0)), 1, static_cast<int>(state.range(1))}));
}

OperationCosts costs_for(const Program& program) {
  CostTable table;
  const auto stages = static_cast<std::size_t>(program.shape().stages);
  table.stages.assign(stages,
                      {{Nanoseconds(100), Nanoseconds(100), Nanoseconds(100), Nanoseconds(200)}});
  table.forward_messages.assign(stages, {Nanoseconds(5), Nanoseconds(2)});
  table.backward_messages = table.forward_messages;
  return expand(program, table);
}

void per_action(benchmark::State& state, std::size_t actions) {
  state.counters["ns/action"] = benchmark::Counter(
      1e-9 * static_cast<double>(actions),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class Work>
double bytes_per_action(std::size_t actions, Work work) {
  const std::size_t before = held;
  most_held = held;
  work();
  return static_cast<double>(most_held - before) / static_cast<double>(actions);
}

void event_engine(benchmark::State& state) {
  const Program program = lower(schedule_for(state), {});
  const OperationCosts costs = costs_for(program);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(program, costs));
  per_action(state, program.size());
  state.counters["bytes/action"] =
      bytes_per_action(program.size(), [&] { benchmark::DoNotOptimize(simulate(program, costs)); });
}
BENCHMARK(event_engine)->Args({4, 250})->Args({16, 128})->Args({64, 1024});

// The program and its costs are built each time, too.
void program_and_engine(benchmark::State& state) {
  const Schedule schedule = schedule_for(state);
  std::size_t actions = 0;
  const auto work = [&] {
    const Program program = lower(schedule, {});
    actions = program.size();
    benchmark::DoNotOptimize(simulate(program, costs_for(program)));
  };
  for (auto _ : state) work();
  per_action(state, actions);
  state.counters["bytes/action"] = bytes_per_action(actions, work);
}
BENCHMARK(program_and_engine)->Args({16, 128})->Args({64, 1024});

void generate_judge_and_lower(benchmark::State& state) {
  std::size_t actions = 0;
  for (auto _ : state) {
    const Schedule schedule = schedule_for(state);
    if (validate(schedule)) state.SkipWithError("invalid");
    const Program program = lower(schedule, {});
    if (find_cycle(program)) state.SkipWithError("deadlock");
    actions = program.size();
  }
  per_action(state, actions);
}
BENCHMARK(generate_judge_and_lower)->Args({16, 128})->Args({64, 1024});

}  // namespace

BENCHMARK_MAIN();

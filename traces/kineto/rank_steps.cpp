// Start at `place_rank`: it cuts the file into profiler steps, lets one of the two ways of placing
// find the actions, and settles what neither can see: R, the optimizer, gradient sums.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kineto/rank_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::size_t kShownBefore = 6, kShown = 16;

RankProgram rank_program(const Program& program, Rank rank) {
  RankProgram result;
  result.program = &program;
  result.rank = rank;
  bool any = false;
  for (const Lane& lane : program.lanes()) {
    if (lane.rank != rank) continue;
    // A rank's lanes stand together in a program, so the first and the last say where it lies.
    if (!any) result.first = lane.first;
    any = true;
    result.last = lane.last;
    for (const OperationId id : lane.operations()) {
      const Action& action = program.op(id).action;
      result.operation_of[action] = id;
      if (lane.kind == LaneKind::reduce) result.reductions.push_back(id);
      if (lane.kind != LaneKind::compute || action.kind == ActionKind::R) continue;
      (action.kind == ActionKind::OPTIMIZER ? result.optimizers : result.actions).push_back(id);
    }
  }
  return result;
}

// The thread that runs the training loop: it opens the profiler's steps, or at least launches the
// transfers.
std::int32_t main_thread(const KinetoEvents& events) {
  if (!events.marked_by.empty()) return static_cast<std::int32_t>(events.marked_by.front());
  for (const KinetoKernel& kernel : events.kernels) {
    if (kernel.kind == KernelKind::send_recv) return kernel.thread;
  }
  return events.kernels.front().thread;
}

struct Window {
  std::int64_t number = 0;
  Nanoseconds start{0}, end{0};
};

std::vector<Window> windows_of(const KinetoEvents& events) {
  std::vector<Window> windows;
  for (const KinetoMark& mark : events.marks) {
    if (mark.kind != MarkKind::step) continue;
    const auto named = whole_number<std::int64_t>(mark.name);
    if (!named) throw InputError(events.file, "ProfilerStep#" + mark.name, "expected a number");
    const std::int64_t number = *named;
    // A step may be annotated twice, by the user and as an operator.
    if (!windows.empty() && windows.back().number == number) continue;
    if (!windows.empty() &&
        (number != windows.back().number + 1 || mark.start < windows.back().start))
      throw InputError(events.file, fmt::format("ProfilerStep#{}", number),
                       "the steps do not follow one another");
    windows.push_back({number, mark.start, mark.end});
  }
  return windows;
}

StepEvents events_of(const KinetoEvents& events, const Window& window, std::string where) {
  StepEvents step;
  step.file = events.file;
  step.where = std::move(where);
  step.main_thread = main_thread(events);
  step.on_host = events.on_host;
  // A kernel belongs to the step that launched it, even if it ran in the next.
  const auto launched_by = [&](Nanoseconds time) {
    return std::ranges::lower_bound(events.kernels, time, {}, &KinetoKernel::launched);
  };
  step.kernels = {launched_by(window.start), launched_by(window.end)};
  auto mark = std::ranges::lower_bound(events.marks, window.start, {}, &KinetoMark::start);
  for (; mark != events.marks.end() && mark->start < window.end; ++mark) {
    if (mark->kind == MarkKind::action) step.actions.push_back(&*mark);
    if (mark->kind == MarkKind::forward || mark->kind == MarkKind::backward)
      step.ranges.push_back(&*mark);
    if (mark->kind == MarkKind::optimizer) step.optimizers.push_back(&*mark);
    if (mark->kind == MarkKind::send || mark->kind == MarkKind::receive)
      step.transfers.push_back(&*mark);
  }
  return step;
}

// Extents found for `operations`, in order: one each, or all of them together shared out in equal
// parts.
void share(const RankProgram& rank, const std::vector<OperationId>& operations,
           const std::vector<Extent>& found, StepPlaces& places) {
  if (found.size() == operations.size()) {
    for (std::size_t i = 0; i < found.size(); ++i) places.at(rank, operations[i]) = found[i];
    return;
  }
  Extent all;
  for (const Extent& extent : found) all.add(extent.start, extent.end);
  if (!all.seen) return;
  const auto parts = static_cast<std::int64_t>(operations.size());
  for (std::int64_t i = 0; i < parts; ++i) {
    // Borders are rounded and not lengths, so that the parts sum to the whole.
    const auto border = [&](std::int64_t k) {
      return all.start + (all.end - all.start) * k / parts;
    };
    places.at(rank, operations[static_cast<std::size_t>(i)]) = {border(i), border(i + 1), true};
  }
}

// Kernels launched by Optimizer.step; where nothing carries that name, what the main thread
// launches after the last action.
std::vector<Extent> optimizer_extents(const StepEvents& step, const StepPlaces& places) {
  std::vector<Extent> found;
  const auto collect = [&](auto belongs) {
    Extent extent;
    for (const KinetoKernel& kernel : step.kernels) {
      if (kernel.kind == KernelKind::compute && belongs(kernel)) extent.add(kernel);
    }
    if (extent.seen) found.push_back(extent);
  };
  for (const KinetoMark* mark : step.optimizers) {
    collect([mark](const KinetoKernel& k) {
      return mark->start <= k.launched && k.launched <= mark->end;
    });
  }
  if (step.optimizers.empty()) {
    collect([&](const KinetoKernel& k) {
      return k.launched > places.last_launch && k.thread == step.main_thread;
    });
  }
  return found;
}

// Collectives launched after the last action.
std::vector<Extent> reduction_extents(const StepEvents& step, const StepPlaces& places) {
  Extent extent;
  for (const KinetoKernel& kernel : step.kernels) {
    if (kernel.kind == KernelKind::collective && kernel.launched > places.last_launch)
      extent.add(kernel);
  }
  return extent.seen ? std::vector{extent} : std::vector<Extent>{};
}

// PyTorch re-materialises inside the backward: R takes as long as its F did, the backward the rest.
void carve_rematerialisation(const RankProgram& rank, StepPlaces& places) {
  for (const OperationId id : rank.operations()) {
    const Action& action = rank.action(id);
    if (action.kind != ActionKind::R) continue;
    const Extent& forward =
        places.at(rank, rank.operation_of.at({action.stage, ActionKind::F, action.microbatch}));
    Extent& backward = places.at(rank, id + 1);  // R stands right before its backward
    const Nanoseconds border =
        backward.start + std::min(forward.end - forward.start, backward.end - backward.start);
    places.at(rank, id) = {backward.start, border, true};
    backward.start = border;
  }
}

// What was not seen takes no time, where its lane stands: after what came before it.
void settle_unseen(const RankProgram& rank, StepPlaces& places, std::set<std::string>& notes) {
  Nanoseconds computed = places.at(rank, rank.actions.front()).start;
  for (const OperationId id : rank.actions) computed = std::max(computed, places.at(rank, id).end);
  for (const Lane& lane : rank.program->lanes()) {
    if (lane.rank != rank.rank) continue;
    // On other lanes than compute what is unseen is behind all computing.
    Nanoseconds before =
        lane.kind == LaneKind::compute ? places.at(rank, rank.actions.front()).start : computed;
    for (const OperationId id : lane.operations()) {
      Extent& extent = places.at(rank, id);
      if (!extent.seen) {
        extent = {before, before, true};
        notes.insert(fmt::format("no kernel of {} was found: it takes no time",
                                 to_string(rank.action(id).kind)));
      }
      before = extent.end;
    }
  }
}

}  // namespace

void Extent::add(Nanoseconds from, Nanoseconds to) {
  start = seen ? std::min(start, from) : from;
  end = seen ? std::max(end, to) : to;
  seen = true;
}

void throw_orders(const StepEvents& step, const Orders& orders) {
  const auto shown = [](const std::vector<std::string>& words, std::size_t difference) {
    const std::size_t first = difference > kShownBefore ? difference - kShownBefore : 0;
    std::string text = first > 0 ? " ..." : "";
    for (std::size_t i = first; i < std::min(words.size(), first + kShown); ++i) {
      text += i == difference ? " [" + words[i] + "]" : " " + words[i];
    }
    if (difference >= words.size()) text += " [end]";
    return text + (first + kShown < words.size() ? " ..." : "");
  };
  throw InputError(
      step.file, step.where,
      fmt::format("the trace's order and the plan's disagree\n  trace:{}\n  plan: {}{}",
                  shown(orders.trace, orders.trace_difference),
                  shown(orders.plan, orders.plan_difference),
                  orders.note.empty() ? "" : "\n  " + orders.note));
}

RankSteps place_rank(const Program& program, Rank rank, const KinetoEvents& events) {
  if (events.kernels_in_file == 0 && !events.on_host)
    throw InputError(events.file, "traceEvents", "holds no GPU kernels and no CPU operators");
  if (events.kernels.empty())
    throw InputError(events.file, "traceEvents",
                     "no kernel's launch was recorded (cat cuda_runtime, same correlation)");
  const RankProgram wanted = rank_program(program, rank);
  RankSteps result;
  result.file = events.file;
  result.base_ns = events.base_ns;
  result.first = wanted.first;
  result.on_host = events.on_host;
  result.named = std::ranges::any_of(events.marks, [&](const KinetoMark& mark) {
    const bool of_gpipe = mark.kind == MarkKind::forward || mark.kind == MarkKind::backward;
    return mark.kind == MarkKind::action || (events.on_host && of_gpipe);
  });
  if (events.on_host && !result.named)
    throw InputError(events.file, "traceEvents",
                     "holds no GPU kernels, and no range names what the CPU ran (PP:2F0, Forward "
                     "0): record ScheduleGPipe or _PipelineScheduleRuntime with the same order; "
                     "Schedule1F1B names nothing");
  std::vector<Window> windows = windows_of(events);
  for (const Window& window : windows) result.numbers.push_back(window.number);
  // Without marks of steps the whole file is one step.
  if (windows.empty()) windows.push_back({0, Nanoseconds::min(), Nanoseconds::max()});
  std::set<std::string> notes;
  for (const Window& window : windows) {
    const StepEvents step =
        events_of(events, window,
                  result.numbers.empty()
                      ? fmt::format("rank {}", rank.value)
                      : fmt::format("rank {}, ProfilerStep#{}", rank.value, window.number));
    StepPlaces places;
    places.extents.resize(static_cast<std::size_t>(wanted.last - wanted.first));
    (result.named ? place_by_name : place_by_segments)(wanted, step, places);
    // The order matters: sums and the optimizer are looked for after the last launch of an action,
    // R is cut out of backwards that are placed, and what is left unseen follows what is not.
    const bool named_sums = std::ranges::any_of(
        wanted.reductions, [&](OperationId id) { return places.at(wanted, id).seen; });
    if (!wanted.reductions.empty() && !named_sums)
      share(wanted, wanted.reductions, reduction_extents(step, places), places);
    if (!wanted.optimizers.empty())
      share(wanted, wanted.optimizers, optimizer_extents(step, places), places);
    carve_rematerialisation(wanted, places);
    settle_unseen(wanted, places, notes);
    result.steps.push_back(std::move(places.extents));
  }
  for (const OperationId id : wanted.actions) {
    if (id > wanted.first && wanted.action(id - 1).kind == ActionKind::R) {
      notes.insert("R, which runs inside the backward, takes its F's time");
      break;
    }
  }
  for (const std::string& note : notes)
    result.notes.push_back(fmt::format("rank {}: {}", rank.value, note));
  return result;
}

}  // namespace weir

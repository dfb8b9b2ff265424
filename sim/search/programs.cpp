// Makes what shapes share, and forgets the shapes longest unused.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/programs.hpp"

#include <algorithm>

#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

std::size_t bytes_of(const Schedule& schedule) {
  std::size_t actions = 0;
  for (const auto& order : schedule.order) actions += order.size();
  return actions * sizeof(Action);
}

// Operations with their successors and their order, dependencies both ways.
std::size_t bytes_of(const Program& program) {
  return program.size() * (sizeof(Operation) + 3 * sizeof(std::uint32_t)) +
         program.parts().dependencies.size() * (sizeof(Dependency) + sizeof(OperationId));
}

}  // namespace

const Schedule& ShapePrograms::schedule() {
  // Threads that want one shape wait for the first of them to make it.
  std::call_once(once_, [this] {
    const auto& [name, k, v, m, slices] = key_;
    schedule_ = std::get<Schedule>(make_schedule(name, {k, v, m, slices}));
    bytes_ += bytes_of(schedule_);
  });
  return schedule_;
}

std::int32_t ShapePrograms::slots(std::int32_t at_least) {
  const Schedule& its = schedule();
  // mutex_ guards slots_, which threads with the same shape share.
  const std::scoped_lock lock(mutex_);
  const auto [found, fresh] = slots_.try_emplace(at_least);
  if (fresh) found->second = fewest_slots(its, at_least);
  return found->second;
}

// By all that lower() reads.
bool ShapePrograms::Before::operator()(const LoweringOptions& a, const LoweringOptions& b) const {
  const auto fields = [](const LoweringOptions& of) {
    return std::tie(of.recompute, of.keep_last_microbatch, of.placement, of.slots, of.optimizer,
                    of.reduce_all, of.clips, of.tied);
  };
  return fields(a) < fields(b);
}

ShapePrograms::Made& ShapePrograms::made(const LoweringOptions& options) {
  const auto [found, fresh] = made_.try_emplace(options);
  if (fresh) {
    found->second.program = lower(schedule_, options);
    bytes_ += bytes_of(found->second.program);
  }
  return found->second;
}

const Program& ShapePrograms::program(const LoweringOptions& options) {
  // Before the lock, because made() lowers it.
  static_cast<void>(schedule());
  // Guards made_. Others who want this shape's programs wait for them anyway.
  const std::scoped_lock lock(mutex_);
  return made(options).program;
}

const CompiledProgram* ShapePrograms::compiled(const LoweringOptions& options) {
  static_cast<void>(schedule());
  const std::scoped_lock lock(mutex_);
  Made& its = made(options);
  if (!its.compiled) {
    its.compiled = compile(its.program);
    if (const auto* code = std::get_if<CompiledProgram>(&*its.compiled)) bytes_ += code->bytes();
  }
  return std::get_if<CompiledProgram>(&*its.compiled);
}

std::shared_ptr<ShapePrograms> Programs::of(const Plan& plan) {
  const ShapePrograms::Key key{plan.schedule, plan.pp, plan.vpp, plan.microbatches, plan.slices};
  // Guards shapes_; schedules and programs are made outside of it.
  const std::scoped_lock lock(mutex_);
  const auto [found, fresh] = shapes_.try_emplace(key);
  if (fresh) found->second.programs = std::make_shared<ShapePrograms>(key);
  found->second.asked = ++asked_;
  // The new one is empty yet, and the last to go.
  auto programs = found->second.programs;
  if (fresh) forget();
  return programs;
}

std::size_t Programs::size() {
  const std::scoped_lock lock(mutex_);
  return shapes_.size();
}

std::size_t Programs::bytes() {
  const std::scoped_lock lock(mutex_);
  return kept_bytes();
}

std::size_t Programs::kept_bytes() const {
  std::size_t all = 0;
  for (const auto& [key, kept] : shapes_) all += kept.programs->bytes();
  return all;
}

void Programs::forget() {
  for (std::size_t all = kept_bytes(); all > most_bytes_ && shapes_.size() > 1;) {
    // Their users hold them too, so they live until nobody reads them.
    const auto oldest =
        std::ranges::min_element(shapes_, {}, [](const auto& shape) { return shape.second.asked; });
    all -= oldest->second.programs->bytes();
    shapes_.erase(oldest);
  }
}

}  // namespace weir

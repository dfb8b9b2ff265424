// Schedules by name, from files, programs and functions.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/schedule/schedule_source.hpp"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/program_output.hpp"

namespace weir {
namespace {

Schedule judged(Schedule schedule, const ScheduleSource& source) {
  ValidationOptions options;
  options.allow_reordered = source.allow_reordered;
  if (const auto fault = validate(schedule, options)) {
    throw InputError(source.name, fmt::format("row {}", fault->rank.value + 1),
                     fault->reason + (fault->picture.empty() ? "" : "\n" + fault->picture));
  }
  return schedule;
}

}  // namespace

Schedule schedule_made_for(const ScheduleSource& source, const std::string& csv,
                           const std::string& maker) {
  const int chunks = source.chunks.value_or(1);
  Schedule schedule = judged(parse_schedule_csv(csv, maker), source);
  const ScheduleShape& shape = schedule.shape;
  // A program that ignores its arguments would be timed as another schedule.
  if (shape.ranks != source.ranks || shape.microbatches != source.microbatches ||
      shape.stages != source.ranks * chunks) {
    throw InputError(maker, "",
                     fmt::format("made K = {}, M = {}, v = {} where {}, {} and {} were asked for",
                                 shape.ranks, shape.microbatches, shape.stages / shape.ranks,
                                 source.ranks, source.microbatches, chunks));
  }
  return schedule;
}

Schedule obtain_schedule(const ScheduleSource& source) {
  if (is_program(source.name)) {
    const std::string command = fmt::format("{} {} {} {}", source.name.substr(5), source.ranks,
                                            source.microbatches, source.chunks.value_or(1));
    return schedule_made_for(source, app::output_of(command), command);
  }
  // Not ours, so it is judged before anybody uses it.
  if (source.name.ends_with(".csv"))
    return judged(parse_schedule_csv(read_text_file(source.name), source.name), source);
  const Generator* its = find_generator(source.name);  // null: the name is refused below
  auto made = make_schedule(
      source.name,
      {source.ranks, source.chunks.value_or(its == nullptr ? 1 : its->default_chunks),
       source.microbatches, source.slices.value_or(its == nullptr ? 1 : its->default_slices)});
  if (const auto* reason = std::get_if<std::string>(&made)) throw UsageError(*reason);
  return std::get<Schedule>(std::move(made));
}

Schedule obtain_schedule(const app::ScheduleChoice& choice, ScheduleSource shape) {
  if (const auto* schedule = std::get_if<Schedule>(&choice)) return *schedule;
  shape.name = name_of(choice);
  const auto* function = std::get_if<app::ScheduleFunction>(&choice);
  if (function == nullptr) return obtain_schedule(shape);
  return schedule_made_for(
      shape, function->csv(shape.ranks, shape.microbatches, shape.chunks.value_or(1)), shape.name);
}

bool is_given(const app::ScheduleChoice& choice) {
  const auto* name = std::get_if<std::string>(&choice);
  return name == nullptr || !name->empty();
}

bool has_own_sizes(const app::ScheduleChoice& choice) {
  const auto* name = std::get_if<std::string>(&choice);
  return std::holds_alternative<Schedule>(choice) || (name != nullptr && name->ends_with(".csv"));
}

std::optional<int> only_chunks(const app::ScheduleChoice& choice) {
  const auto* name = std::get_if<std::string>(&choice);
  const Generator* generator = name == nullptr ? nullptr : find_generator(*name);
  if (generator == nullptr || !generator->one_chunks) return std::nullopt;
  return generator->default_chunks;
}

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const auto all : {generators(), vocabulary_generators()}) {
    for (const Generator& generator : all) names.emplace_back(generator.name);
  }
  return names;
}

std::string name_of(const app::ScheduleChoice& choice) {
  if (const auto* name = std::get_if<std::string>(&choice)) return *name;
  if (const auto* schedule = std::get_if<Schedule>(&choice)) return schedule->name;
  return std::get<app::ScheduleFunction>(choice).name;
}

}  // namespace weir

// What a field says of an option, and what CLI11 knows of it besides.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/help/described.hpp"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <utility>
#include <variant>

#include "tools/app/machine/machine.hpp"

namespace weir {
namespace {

// What --help says of it beside its names and its help.
void take_details(const CLI::Option& option, DescribedArgument& argument) {
  argument.group = option.get_group();
  argument.required = option.get_required();
  if (argument.names.empty()) argument.place = option.get_name();
  argument.unsaid = option.get_default_str();
  argument.several = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  for (const CLI::Option* other : option.get_excludes())
    argument.excludes.push_back(other->get_name());
  std::ranges::sort(argument.excludes);  // they come by address
  if (!argument.takes_value) return;
  // "INT:0 to 64", and of choices "TEXT:{a,b}", which are known.
  const std::string type = option.get_type_name();
  const std::size_t colon = std::min(type.find(':'), type.size());
  argument.value = type.substr(0, colon);
  if (colon < type.size() && argument.choices.empty()) argument.within = type.substr(colon + 1);
}

}  // namespace

const std::vector<std::string>& output_formats() {
  static const std::vector<std::string> formats{"table", "markdown", "csv", "json"};
  return formats;
}

DescribedArgument described(const app::Field& field, const CLI::Option& option) {
  DescribedArgument argument;
  std::istringstream in(field.names);
  for (std::string name; std::getline(in, name, ',');) {
    if (name.starts_with("-")) argument.names.push_back(name);
  }
  argument.help = field.help;
  argument.takes_value = !std::holds_alternative<bool*>(field.target);
  argument.choices = field.traits.choices;
  if (argument.names.size() == 1 && argument.names.front() == "--cluster")
    argument.names_known = app::cluster_names();
  take_details(option, argument);
  return argument;
}

std::vector<DescribedArgument> options_of(const CLI::App& app) {
  std::vector<DescribedArgument> all;
  for (const CLI::Option* option : app.get_options()) {
    DescribedArgument argument;
    for (const std::string& name : option->get_snames()) argument.names.push_back("-" + name);
    // Long names last: what follows is looked up by them.
    for (const std::string& name : option->get_lnames()) argument.names.push_back("--" + name);
    argument.help = option->get_description();
    argument.takes_value = option->get_items_expected_max() > 0;
    if (argument.names.empty()) continue;  // by place
    if (argument.names.back() == "--completion") argument.choices = {"bash", "zsh", "fish"};
    if (argument.names.back() == "--format") argument.choices = output_formats();
    take_details(*option, argument);
    all.push_back(std::move(argument));
  }
  return all;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

}  // namespace weir

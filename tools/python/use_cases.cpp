// Tables of fields as keyword arguments: names, types, ranges, and JSON as Python has it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/python/use_cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>

#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

using Path = std::filesystem::path;

std::string python_name(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

// One value or several.
template <class Value>
std::vector<Value> list_of(const py::handle& value) {
  const bool one = std::is_same_v<Value, int>
                       ? py::isinstance<py::int_>(value)
                       : !py::isinstance<py::sequence>(value) || py::isinstance<py::str>(value);
  if (one) return {value.cast<Value>()};
  std::vector<Value> values;
  for (const py::handle item : value) values.push_back(item.cast<Value>());
  return values;
}

// A thing in memory, or the file it is in.
template <class Thing, class Source>
void set_source(const py::handle& value, Source& target) {
  if (py::isinstance<Thing>(value)) {
    target = value.cast<Thing>();
  } else {
    target = value.cast<Path>();
  }
}

class Argument {
 public:
  Argument(const app::Field& field, const py::handle& value) : field_(field), value_(value) {}

  void operator()(bool* target) const {
    if (!py::isinstance<py::bool_>(value_)) throw py::cast_error();
    *target = value_.cast<bool>();
  }
  void operator()(app::PlanSource* target) const { set_source<PlacedPlan>(value_, *target); }
  void operator()(app::CostsSource* target) const { set_source<Costs>(value_, *target); }
  void operator()(app::TraceSource* target) const { set_source<PlannedTrace>(value_, *target); }
  void operator()(std::vector<app::TraceSource>* target) const {
    const bool one = py::isinstance<PlannedTrace>(value_) ||
                     !py::isinstance<py::sequence>(value_) || py::isinstance<py::str>(value_);
    const auto add = [&](const py::handle& item) {
      set_source<PlannedTrace>(item, target->emplace_back());
    };
    target->clear();
    if (one) return add(value_);
    for (const py::handle item : value_) add(item);
  }
  void operator()(app::ScheduleChoice* target) const {
    if (py::isinstance<Schedule>(value_)) {
      *target = value_.cast<Schedule>();
    } else if (PyCallable_Check(value_.ptr()) != 0) {
      *target = schedule_function(py::reinterpret_borrow<py::object>(value_));
    } else if (py::isinstance<py::str>(value_) || py::hasattr(value_, "__fspath__")) {
      *target = value_.cast<Path>().string();
    } else {
      throw UsageError(fmt::format(
          "{}: expected a name, a CSV file, a Schedule, or a function (K, M, v)", name()));
    }
  }
  void operator()(std::vector<app::ScheduleChoice>* target) const {
    const bool several = py::isinstance<py::list>(value_) || py::isinstance<py::tuple>(value_);
    target->clear();
    if (!several) return (*this)(&target->emplace_back());
    for (const py::handle item : value_) Argument(field_, item)(&target->emplace_back());
  }
  void operator()(app::Words* target) const {
    target->words = list_of<std::string>(value_);
    app::require_choices(field_, target->words);
  }
  template <class Value>
  void operator()(std::vector<Value>* target) const {
    *target = list_of<Value>(value_);
    if constexpr (std::is_arithmetic_v<Value>) {
      if (target->empty())
        throw UsageError(fmt::format("{}: expected at least one number", name()));
      for (const Value number : *target) check(number);
    }
  }
  // True is the number that may be left out on the command line, False is none.
  void operator()(std::optional<double>* target) const {
    if (field_.traits.unsaid && py::isinstance<py::bool_>(value_)) {
      if (value_.cast<bool>()) *target = field_.traits.unsaid;
      return;
    }
    double number = 0;
    (*this)(&number);
    *target = number;
  }
  template <class Value>
  void operator()(std::optional<Value>* target) const {
    Value value{};
    (*this)(&value);
    *target = std::move(value);
  }
  template <class Value>
  void operator()(Value* target) const {
    *target = value_.cast<Value>();
    if constexpr (std::is_arithmetic_v<Value>) {
      if constexpr (!std::is_same_v<Value, bool>) check(static_cast<double>(*target));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      app::require_choices(field_, {*target});
    }
  }

 private:
  [[nodiscard]] std::string name() const { return python_name(app::long_names(field_).front()); }
  void check(double number) const {
    const auto [low, high] = field_.traits.range.value();
    if (!(number >= low && number <= high))  // also what is no number
      throw UsageError(fmt::format("{} {}: expected {} to {}", name(), number, low, high));
  }

  const app::Field& field_;
  const py::handle& value_;
};

}  // namespace

py::object to_python(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::object: {
      py::dict dict;
      for (const auto& [key, value] : json.items()) dict[py::str(key)] = to_python(value);
      return dict;
    }
    case nlohmann::ordered_json::value_t::array: {
      py::list list;
      for (const auto& value : json) list.append(to_python(value));
      return list;
    }
    case nlohmann::ordered_json::value_t::string:
      return py::str(json.get<std::string>());
    case nlohmann::ordered_json::value_t::boolean:
      return py::bool_(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return py::int_(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      return py::int_(json.get<std::uint64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return py::float_(json.get<double>());
    default:
      return py::none();
  }
}

ArgumentNames argument_names(const app::Fields& fields) {
  ArgumentNames names;
  for (const app::Field& field : fields) {
    if (!field.names.starts_with("-")) continue;
    const auto long_ones = app::long_names(field);
    for (const std::string& name : long_ones) names.emplace("--" + name, python_name(name));
    std::istringstream in(field.names);
    for (std::string name; std::getline(in, name, ',');)
      names.emplace(name, python_name(long_ones.front()));  // -o; a long one is there already
  }
  return names;
}

std::set<std::string> fill(const char* function, const app::Fields& fields, const Places& places,
                           const py::args& args, const py::kwargs& kwargs) {
  std::map<std::string, const app::Field*> by_name;
  for (const app::Field& field : fields) {
    // The first of a name keeps it: `plan`'s model by place, not the other model of a job.
    for (const std::string& name : app::long_names(field))
      by_name.emplace(python_name(name), &field);
  }
  std::vector<std::string> names;
  for (const std::string& place : places) {
    const auto equals = place.find('=');
    names.push_back(place.substr(0, equals));
    if (equals != std::string::npos) by_name[names.back()] = by_name.at(place.substr(equals + 1));
  }
  if (args.size() > names.size()) {
    throw py::type_error(fmt::format("{}() takes at most {} arguments by place, {} were given",
                                     function, names.size(), args.size()));
  }
  std::set<std::string> given;
  const auto set = [&](const std::string& name, const py::handle& value) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      throw py::type_error(fmt::format("{}() has no argument '{}'", function, name));
    const app::Field& field = *found->second;
    const std::string first = app::long_names(field).front();
    if (given.contains(first))
      throw py::type_error(fmt::format("{}() was given '{}' twice", function, name));
    if (value.is_none()) return;  // as if it was left out
    given.insert(first);
    try {
      std::visit(Argument(field, value), field.target);
    } catch (const py::cast_error&) {
      throw py::type_error(fmt::format("{}(): {} cannot be {}", function, name,
                                       py::repr(value).cast<std::string>()));
    }
  };
  for (std::size_t i = 0; i < args.size(); ++i) set(names[i], args[i]);
  for (const auto& [name, value] : kwargs) set(name.cast<std::string>(), value);
  if (const app::Field* missing = app::first_missing(fields, given)) {
    throw py::type_error(
        fmt::format("{}() needs '{}'", function, python_name(app::long_names(*missing).front())));
  }
  return given;
}

namespace {

// The type of a value that a field takes; None is as good as leaving it out.
std::string type_of(const app::Field& field) {
  const std::string file = "str | os.PathLike[str]";
  return std::visit(
      [&]<class Value>(const Value*) -> std::string {
        if constexpr (std::is_same_v<Value, bool>) return "bool";
        if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, std::uint64_t> ||
                      std::is_same_v<Value, std::optional<int>> ||
                      std::is_same_v<Value, std::optional<std::int64_t>>)
          return "int";
        if constexpr (std::is_same_v<Value, double>) return "float";
        if constexpr (std::is_same_v<Value, std::optional<double>>)
          return field.traits.unsaid ? "float | bool" : "float";
        if constexpr (std::is_same_v<Value, std::string>) return "str";
        if constexpr (std::is_same_v<Value, Path> || std::is_same_v<Value, std::optional<Path>>)
          return std::string(file);
        if constexpr (std::is_same_v<Value, std::vector<int>>) return "int | Sequence[int]";
        if constexpr (std::is_same_v<Value, std::vector<double>>) return "float | Sequence[float]";
        if constexpr (std::is_same_v<Value, app::Words> ||
                      std::is_same_v<Value, std::vector<std::string>>)
          return "str | Sequence[str]";
        if constexpr (std::is_same_v<Value, std::vector<Path>>)
          return file + " | Sequence[" + file + "]";
        if constexpr (std::is_same_v<Value, app::PlanSource>) return "Plan | " + file;
        if constexpr (std::is_same_v<Value, app::CostsSource>) return "Costs | " + file;
        if constexpr (std::is_same_v<Value, app::TraceSource>) return "Trace | " + file;
        if constexpr (std::is_same_v<Value, std::vector<app::TraceSource>>)
          return "Trace | " + file + " | Sequence[Trace | " + file + "]";
        std::string schedule =
            file + " | Schedule | Callable[[int, int, int], Sequence[Sequence[str]]]";
        if constexpr (std::is_same_v<Value, app::ScheduleChoice>) return schedule;
        if constexpr (std::is_same_v<Value, std::vector<app::ScheduleChoice>>)
          return fmt::format("{0} | list[{0}]", schedule);
      },
      field.target);
}

std::string argument(const std::string& name, const app::Field& field) {
  const std::string type = type_of(field);
  return field.traits.required ? fmt::format("{}: {}", name, type)
                               : fmt::format("{}: {} | None = ...", name, type);
}

// "plan(model: str, *, pp: int | None = ...) -> Plan": those by place first, then the others by
// name. What Python takes for a word of its own (`from`) goes as **{"from": ...}.
std::string signature(const Documented& function, const app::Fields& fields, const Places& places) {
  std::vector<std::string> by_place, by_name;
  std::set<std::string> placed;
  for (const std::string& place : places) {
    const auto equals = place.find('=');
    const std::string name = place.substr(0, equals);
    const std::string wanted = equals == std::string::npos ? name : place.substr(equals + 1);
    const auto field = std::ranges::find_if(fields, [&](const app::Field& f) {
      return python_name(app::long_names(f).front()) == wanted;
    });
    by_place.push_back(argument(name, *field));
    placed.insert(name);
    placed.insert(wanted);
  }
  bool others = false;
  for (const app::Field& field : fields) {
    for (const std::string& name : app::long_names(field)) {
      if (!placed.insert(python_name(name)).second) continue;
      if (name == "from") {
        others = true;
      } else {
        by_name.push_back(argument(python_name(name), field));
      }
    }
  }
  std::vector<std::string> all = std::move(by_place);
  if (!by_name.empty()) all.emplace_back("*");
  std::ranges::move(by_name, std::back_inserter(all));
  if (others) all.emplace_back("**others: Any");
  return fmt::format("{}({}) -> {}", function.name, fmt::join(all, ", "), function.returns);
}

}  // namespace

std::string documentation(const Documented& function, const app::Fields& fields,
                          const Places& places) {
  std::string text =
      fmt::format("{}\n\n{}.\n\nBy place: {}.\n", signature(function, fields, places),
                  function.summary, fmt::join(places, ", "));
  for (const app::Field& field : fields) {
    std::vector<std::string> names = app::long_names(field);
    std::ranges::transform(names, names.begin(), python_name);
    text += fmt::format("\n{}: {}", fmt::join(names, ", "), field.help);
  }
  return text;
}

std::string call_text(const char* function, const py::args& args, const py::kwargs& kwargs) {
  const auto text = [](const py::handle& value) {
    return shortened(py::repr(value).cast<std::string>());
  };
  std::vector<std::string> words;
  for (const py::handle& value : args) words.push_back(text(value));
  for (const auto& [name, value] : kwargs)
    words.push_back(name.cast<std::string>() + "=" + text(value));
  return fmt::format("weir.{}({})", function, fmt::join(words, ", "));
}

Listener::Listener(app::Session& session) {
  session.note = [this](const std::string& line) {
    const std::scoped_lock lock(mutex_);
    notes_.push_back(line);
  };
}

void Listener::warn() const {
  for (const std::string& line : notes_) {
    if (PyErr_WarnEx(PyExc_UserWarning, line.c_str(), 1) != 0) throw py::error_already_set();
  }
}

}  // namespace weir::python

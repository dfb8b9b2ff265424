// Use cases as Python functions: each table of fields as keyword arguments. `define` is where to
// start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/python/bindings.hpp"
#include "tools/python/interrupt.hpp"

namespace weir::python {

// JSON as Python's own objects.
[[nodiscard]] pybind11::object to_python(const nlohmann::ordered_json& json);

// An argument by place has the name at that place; a name may stand for a field's: "source=name".
using Places = std::vector<std::string>;

// Puts the arguments into the fields' targets; the names of those that were given. Throws TypeError
// for a name that is no field's or a value of another type, UsageError for one that is out of
// range.
std::set<std::string> fill(const char* function, const app::Fields& fields, const Places& places,
                           const pybind11::args& args, const pybind11::kwargs& kwargs);

// Each field's options, as messages name them, by the field's first name here.
[[nodiscard]] ArgumentNames argument_names(const app::Fields& fields);

// The call as Python writes it: "weir.sweep('model.json', pp=[1, 2])".
[[nodiscard]] std::string call_text(const char* function, const pybind11::args& args,
                                    const pybind11::kwargs& kwargs);

// A function as Python writes it, and its documentation: what it does, and what each argument says.
struct Documented {
  const char* name;
  const char* summary;
  const char* returns;  // its type
};
[[nodiscard]] std::string documentation(const Documented& function, const app::Fields& fields,
                                        const Places& places);

// Notes become Python's warnings, once the work is done.
class Listener {
 public:
  explicit Listener(app::Session& session);
  void warn() const;

 private:
  std::mutex mutex_;  // over notes_: the progress thread of a run of several processes notes, too
  std::vector<std::string> notes_;
};

inline constexpr const char* kJson = "dict[str, Any]";

// The result of a call that Ctrl-C may end; its notes are Python's warnings.
template <class Request, class Result>
Result called(const app::UseCase<Request, Result>& use_case, Request& request,
              app::Session& session) {
  const Listener listener(session);
  std::optional<Result> result;
  const auto work = [&] {
    const pybind11::gil_scoped_release others_may_run;
    result = use_case.run(request, session);
  };
  const Stoppable here;
  const Interruptible asked;
  int (*const hears)() = asked.listens() ? &Interruptible::heard : &Interruptible::ended;
  if constexpr (requires { request.stopping; }) {
    request.stopping = hears;
  } else {
    // Between two parts of the work: of measurements, those that are made are kept.
    session.progress = [hears](const std::string&, int, int) {
      if (hears() != 0) throw RunFailed("interrupted");
    };
  }
  try {
    work();
  } catch (const RunFailed&) {  // stopped before there was a result, it may be
    asked.rethrow();
    throw;
  }
  asked.rethrow();
  if constexpr (requires { require_success(*result); }) require_success(*result);
  listener.warn();
  return std::move(*result);
}

// `use_case` as the function of that name, which returns what `convert` makes of the request and
// the result, of the type `returns`, and in the module `commands` as one that returns the command's
// JSON.
template <class Request, class Result, class Convert>
void define(pybind11::module_& m, const app::UseCase<Request, Result>& use_case, Places places,
            const char* returns, Convert convert) {
  // The signature is written here: pybind11's would say *args and **kwargs.
  pybind11::options written;
  written.disable_function_signatures();
  const auto add = [&](pybind11::module_ module, const char* type, auto make) {
    Request defaults;
    const std::string text =
        documentation({use_case.name, use_case.summary, type}, fields(defaults), places);
    module.def(
        use_case.name,
        [use_case, places, make](const pybind11::args& args, const pybind11::kwargs& kwargs) {
          Request request;
          const app::Fields all = fields(request);
          try {
            auto given = fill(use_case.name, all, places, args, kwargs);
            app::find_models(all);
            app::Session session(app::files_read(all), std::move(given));
            session.command = call_text(use_case.name, args, kwargs);
            session.date = app::today();
            app::try_outputs(all, session);
            return pybind11::object(make(request, called(use_case, request, session)));
          } catch (...) {
            throw_to_python(argument_names(all));
          }
        },
        text.c_str());
  };
  const auto json = [](const Request&, Result&& result) { return to_python(to_json(result)); };
  add(m.attr("commands").template cast<pybind11::module_>(), kJson, json);
  add(m, returns, convert);
}
// The same where the function returns the command's JSON.
template <class Request, class Result>
void define(pybind11::module_& m, const app::UseCase<Request, Result>& use_case, Places places) {
  define(m, use_case, std::move(places), kJson,
         [](const Request&, Result&& result) { return to_python(to_json(result)); });
}

}  // namespace weir::python

// A use case's request from a body, and what becomes of what it says: the one way in which all
// answers are made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/text/ending.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/app/shared/session.hpp"
#include "tools/serve/answer.hpp"
#include "tools/serve/body_fields.hpp"

namespace weir {

template <class Request, class Result>
class Asked {
 public:
  // `allowed`: the names that the body may have. Throws InputError, as fill().
  Asked(const app::UseCase<Request, Result>& use_case, const std::vector<std::string_view>& allowed,
        const Json& body)
      : use_case_(use_case) {
    const app::Fields all = fields(request);
    std::set<std::string> given = fill(all, allowed, body);
    session = app::Session(app::files_read(all), std::move(given));
    session.command = command_line_of(use_case.name, all, body);
    session.date = app::today();
    session.hub = false;  // its cache lies outside of what is served
    session.note = session.log = [this](const std::string& line) { notes_.push_back(line); };
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  ~Asked() = default;

  [[nodiscard]] Result run() const { return use_case_.run(request, session); }

  // With `end` where the command would end with another code than 0 and yet has a result.
  [[nodiscard]] Json envelope(const Result& result, Json json) const {
    Json told{{"command", session.command}, {"result", std::move(json)}, {"notes", notes_}};
    if constexpr (requires { require_success(result); }) {
      try {
        require_success(result);
      } catch (const NoFeasiblePlan&) {
        told["end"] = error_json(ending_of(std::current_exception()));
      }
    }
    return told;
  }

 private:
  const app::UseCase<Request, Result>& use_case_;
  std::vector<std::string> notes_;

 public:
  Request request;
  app::Session session;
};

}  // namespace weir

// The command line: each use case's table of fields as the options of a sub-command, its result as
// JSON or as text for people. command_line.cpp alone knows CLI11.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/app/shared/exit_code.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/weir/help/described.hpp"
#include "tools/weir/print/printout.hpp"

namespace CLI {
class App;
}

namespace weir {

// "weir: LINE" on stderr.
void note(const std::string& line);
// An error, which -q leaves.
void complain(const std::string& line);

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  template <class Request>
  struct Style {
    int indent = 2;         // of the JSON, unless the use case has a text of its own (json_text)
    Request defaults = {};  // what the command has where the use case has nothing
    bool timeline = false;  // the command has --timeline, which its printout knows
    bool tables = true;     // it prints some: else there is nothing to write as CSV
  };
  // `print` writes the result for people, and for machines too where it has no JSON.
  template <class Request, class Result>
  void add(const app::UseCase<Request, Result>& use_case,
           void (*print)(Printout&, const Request&, const Result&),
           std::type_identity_t<Style<Request>> style = {}) {
    auto request = std::make_shared<Request>(std::move(style.defaults));
    add(use_case.name, use_case.summary, fields(*request),
        [this, request, run = use_case.run, print,
         indent = style.indent](const app::Session& session) {
          const Result result = run(*request, session);
          Printout out({format_.value_or(TableFormat::table), timeline_});
          if (!global_.json || !print_json(text_of(result, indent))) print(out, *request, result);
          if constexpr (requires { require_success(result); }) require_success(result);
          if constexpr (requires { require_kept(result); }) require_kept(result);
          if constexpr (requires { stopped_by(result); }) {
            if (const int signal = stopped_by(result)) throw StoppedBySignal{signal};
          }
        });
    if (style.timeline) add_timeline(use_case.name);
    if (!style.tables) without_tables_.insert(use_case.name);
  }

  // Parses and runs; the exit code of the process, its one line printed where something failed.
  [[nodiscard]] int run(int argc, char** argv);

 private:
  void add(const char* name, const char* summary, app::Fields fields,
           std::function<void(const app::Session&)> run);
  void add_timeline(const char* command);
  template <class Result>
  static std::string text_of(const Result& result, int indent) {
    if constexpr (requires { json_text(result); }) {
      return json_text(result);
    } else {
      const auto json = to_json(result);
      return json.is_null() ? std::string() : json.dump(indent);
    }
  }
  [[nodiscard]] app::Session session_for(const CLI::App& command, const app::Fields& fields) const;
  void take_seed(const std::string& command, const app::Fields& fields) const;
  static bool print_json(const std::string& text);  // false: there is none

  struct {
    bool json = false, quiet = false;
    std::uint64_t seed = 1;
  } global_;
  std::optional<TableFormat> format_;  // of tables; none: as none was asked for
  bool timeline_ = false;
  std::set<std::string> without_tables_;  // commands
  std::string typed_;                     // the command as a shell takes it
  std::map<std::string, double> unsaid_;  // options whose number may be left out, and that number
  std::vector<DescribedCommand> described_;  // what --completion and manual pages know
  std::unique_ptr<CLI::App> app_;
};

}  // namespace weir

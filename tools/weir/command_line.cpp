// Tables of fields as CLI11's options, and what a run of the command comes to: its output flushed,
// its exit code.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/command_line.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>

#include "plan/text/ending.hpp"
#include "plan/words/error.hpp"
#include "tools/app/exit_code.hpp"
#include "tools/app/plan_fields.hpp"
#include "tools/app/process_session.hpp"
#include "tools/weir/progress.hpp"

namespace weir {
namespace {

using Path = std::filesystem::path;

// "1..8" for what is written so.
std::string to_text(const std::vector<int>& numbers) {
  const bool range = numbers.size() > 2 &&
                     numbers.back() - numbers.front() + 1 == static_cast<int>(numbers.size());
  if (range) return fmt::format("{}..{}", numbers.front(), numbers.back());
  return fmt::format("{}", fmt::join(numbers, ","));
}

class Options {
 public:
  explicit Options(CLI::App& command) : command_(command) {}

  void add(const app::Field& field) {
    CLI::Option* option =
        std::visit([&](auto* target) { return added(field, *target); }, field.target);
    if (field.traits.required) option->required();
    if (!field.traits.choices.empty()) option->check(CLI::IsMember(field.traits.choices));
  }

 private:
  CLI::Option* added(const app::Field& f, bool& target) {
    return command_.add_flag(f.names, target, f.help);
  }
  CLI::Option* added(const app::Field& f, double& target) {
    CLI::Option* option = command_.add_option(f.names, target, f.help)->capture_default_str();
    if (f.traits.range) option->check(CLI::Range(f.traits.range->first, f.traits.range->second));
    return option;
  }
  // Whole numbers, texts and files, and lists of texts and files.
  template <class Value>
  CLI::Option* added(const app::Field& f, Value& target) {
    CLI::Option* option = command_.add_option(f.names, target, f.help);
    if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, std::uint64_t> ||
                  std::is_same_v<Value, std::string>) {
      option->capture_default_str();
    } else if constexpr (std::is_same_v<Value, Path>) {
      if (!target.empty()) option->capture_default_str();
    } else if constexpr (std::is_same_v<Value, std::optional<Path>>) {
      if (target) option->default_str(target->string());
    }
    // Given once for each: it must not take an argument by place that stands behind it.
    if constexpr (std::is_same_v<Value, std::vector<Path>>) {
      if (f.names.starts_with("-")) option->allow_extra_args(false);
    }
    if (f.traits.range) {
      option->check(CLI::Range(static_cast<int>(f.traits.range->first),
                               static_cast<int>(f.traits.range->second)));
    }
    return option;
  }
  CLI::Option* added(const app::Field& f, std::vector<int>& target) {
    const auto [low, high] = f.traits.range.value_or(app::kPositive);
    const auto parse = [&target, low = static_cast<int>(low), high = static_cast<int>(high),
                        name = "--" + app::long_names(f).front()](const std::string& text) {
      target = parse_numbers(text, name, low, high);
    };
    return shown(command_.add_option_function<std::string>(f.names, parse, f.help),
                 to_text(target));
  }
  CLI::Option* added(const app::Field& f, app::Words& target) {
    const auto parse = [&target](const std::string& text) { target.words = parse_words(text); };
    return shown(command_.add_option_function<std::string>(f.names, parse, f.help),
                 fmt::format("{}", fmt::join(target.words, ",")));
  }
  CLI::Option* added(const app::Field& f, app::ScheduleChoice& target) {
    const auto set = [&target](const std::string& name) { target = name; };
    return shown(command_.add_option_function<std::string>(f.names, set, f.help),
                 std::get<std::string>(target));
  }
  // From the command line a source is always a file.
  CLI::Option* added(const app::Field& f, app::PlanSource& target) { return file(f, target); }
  CLI::Option* added(const app::Field& f, app::CostsSource& target) { return file(f, target); }
  CLI::Option* added(const app::Field& f, app::TraceSource& target) { return file(f, target); }
  CLI::Option* added(const app::Field& f, std::vector<app::TraceSource>& target) {
    const auto set = [&target](const std::vector<std::string>& names) {
      target.assign(names.size(), Path());
      std::ranges::transform(names, target.begin(), [](const auto& name) { return Path(name); });
    };
    return command_.add_option_function<std::vector<std::string>>(f.names, set, f.help);
  }

  template <class Source>
  CLI::Option* file(const app::Field& f, Source& target) {
    return command_.add_option_function<std::string>(
        f.names, [&target](const std::string& name) { target = Path(name); }, f.help);
  }
  static CLI::Option* shown(CLI::Option* option, const std::string& value) {
    return option->default_str(value);
  }

  CLI::App& command_;
};

bool is_seed(const app::Field& field) { return field.names == "--seed"; }

// What was printed must have arrived: a full device shows when the last of it is written.
void flush_output() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  throw RunFailed(fmt::format("standard output: {}", std::strerror(errno)));
}

int run_parsed(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    app.exit(done);
  } catch (const app::EndedTogether& ended) {  // what there is to say has been said
    return exit_code(ended.ending.kind);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  } catch (const std::system_error& error) {  // fmt throws where it cannot write
    if (std::ferror(stdout) == 0) throw;
    throw RunFailed("standard output: " + error.code().message());
  }
  flush_output();
  return 0;
}

}  // namespace

void note(const std::string& line) { fmt::print(stderr, "weir: {}\n", line); }

app::Session CommandLine::session_for(const CLI::App& command, const app::Fields& fields) const {
  std::set<std::string> given;
  for (const app::Field& field : fields) {
    if (is_seed(field)) continue;
    const std::string name = app::long_names(field).front();
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr) option = command.get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) given.insert(name);
  }
  app::Session session(app::files_read(fields), std::move(given));
  session.note = note;
  if (!global_.quiet)
    session.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  // The bar of the work in hand; another title is other work, and the old bar is gone.
  struct Shown {
    std::string title;
    std::optional<ProgressBar> bar;
  };
  session.progress = [shown = std::make_shared<Shown>(), wanted = !global_.quiet](
                         const std::string& what, int done, int of) {
    if (!shown->bar || shown->title != what) {
      shown->title = what;
      shown->bar.emplace(what, wanted);
    }
    shown->bar->show(done, of);
    if (done == of) shown->bar.reset();  // wiped before what is printed next
  };
  return session;
}

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>(
          "Forecasts pipeline-parallel training, runs the plan it picked, and learns from the "
          "difference.")) {
  app_->set_version_flag("--version", WEIR_VERSION);
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->add_flag("--json", global_.json, "Print JSON on stdout");
  app_->add_flag("-q,--quiet", global_.quiet, "No progress on stderr");
  app_->add_option("--seed", global_.seed, "Seed of everything random")->capture_default_str();
}

CommandLine::~CommandLine() = default;

void CommandLine::add(const char* name, const char* summary, app::Fields fields,
                      std::function<void(const app::Session&)> run) {
  CLI::App* command = app_->add_subcommand(name, summary);
  for (const app::Field& field : fields) {
    if (!is_seed(field)) Options(*command).add(field);
  }
  command->callback([this, command, fields = std::move(fields), run = std::move(run)] {
    for (const app::Field& field : fields) {
      if (is_seed(field)) *std::get<std::uint64_t*>(field.target) = global_.seed;
    }
    run(session_for(*command, fields));
  });
}

bool CommandLine::print_json(const std::string& text) {
  if (text.empty()) return false;
  fmt::print("{}\n", text);
  return true;
}

int CommandLine::run(int argc, char** argv) {
  try {
    return run_parsed(*app_, argc, argv);
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    note(ending.line);
    return exit_code(ending.kind);
  }
}

}  // namespace weir

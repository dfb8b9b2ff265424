// Tables of fields as CLI11's options, and what a run of the command comes to: its output flushed,
// its exit code.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/command_line.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>

#include "exec/processes/started_by.hpp"
#include "plan/text/cells.hpp"
#include "plan/text/ending.hpp"
#include "plan/text/quote.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "tools/app/run/process_session.hpp"
#include "tools/app/shared/exit_code.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/app/shared/version.hpp"
#include "tools/weir/heard_signal.hpp"
#include "tools/weir/help/completion.hpp"
#include "tools/weir/help/examples.hpp"
#include "tools/weir/help/manual.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/refusal.hpp"

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

// A number within a field's range. CLI11's own check lets nan pass, and reads -1 as a large
// unsigned number.
template <class Number>
CLI::Validator within(const app::Range& range) {
  const auto refused = [range](const std::string& text) -> std::string {
    const auto number = whole_number<Number>(text);
    // Compared as what it is: a double would round 2^53 + 1 to 2^53.
    if (number && *number >= static_cast<Number>(range.first) &&
        *number <= static_cast<Number>(range.second))
      return {};
    return fmt::format("{}: expected a {} from {} to {}", text,
                       std::is_integral_v<Number> ? "whole number" : "number", range.first,
                       range.second);
  };
  return {refused, fmt::format("{} to {}", range.first, range.second)};
}

class Options {
 public:
  explicit Options(CLI::App& command) : command_(command) {}

  const CLI::Option& add(const app::Field& field) {
    CLI::Option* option =
        std::visit([&](auto* target) { return added(field, *target); }, field.target);
    if (field.traits.required) option->required();
    // An argument by place stands before all groups.
    if (field.names.starts_with("-")) option->group(option_group(app::long_names(field).front()));
    if (std::holds_alternative<std::string*>(field.target) && !field.traits.choices.empty())
      option->check(CLI::IsMember(field.traits.choices));
    return *option;
  }

 private:
  CLI::Option* added(const app::Field& f, bool& target) {
    return command_.add_flag(f.names, target, f.help);
  }
  CLI::Option* added(const app::Field& f, double& target) {
    CLI::Option* option = command_.add_option(f.names, target, f.help)->capture_default_str();
    return option->check(within<double>(f.traits.range.value()));
  }
  CLI::Option* added(const app::Field& f, std::optional<double>& target) {
    return command_.add_option(f.names, target, f.help)
        ->check(within<double>(f.traits.range.value()));
  }
  // Whole numbers, texts and files, and lists of texts and files.
  template <class Value>
  CLI::Option* added(const app::Field& f, Value& target) {
    CLI::Option* option = command_.add_option(f.names, target, f.help);
    if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, std::uint64_t> ||
                  std::is_same_v<Value, std::string>) {
      option->capture_default_str();
    } else if constexpr (std::is_same_v<Value, Path>) {
      // A default that is empty would be shown as if it meant something.
      if (!target.empty()) option->capture_default_str();
    } else if constexpr (std::is_same_v<Value, std::optional<Path>>) {
      if (target) option->default_str(target->string());
    }
    // Given once for each: it must not take an argument by place that stands behind it.
    if constexpr (std::is_same_v<Value, std::vector<Path>>) {
      if (f.names.starts_with("-")) option->allow_extra_args(false);
    }
    if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, std::uint64_t> ||
                  std::is_same_v<Value, std::optional<int>> ||
                  std::is_same_v<Value, std::optional<std::int64_t>>)
      option->check(within<std::int64_t>(f.traits.range.value()));
    return option;
  }
  CLI::Option* added(const app::Field& f, std::vector<int>& target) {
    const auto [low, high] = f.traits.range.value();
    const auto parse = [&target, low = static_cast<int>(low), high = static_cast<int>(high),
                        name = "--" + app::long_names(f).front()](const std::string& text) {
      target = parse_numbers(text, name, low, high);
    };
    return shown(command_.add_option_function<std::string>(f.names, parse, f.help),
                 to_text(target));
  }
  CLI::Option* added(const app::Field& f, std::vector<double>& target) {
    const auto check = within<double>(f.traits.range.value());
    const auto parse = [&target, check,
                        name = "--" + app::long_names(f).front()](const std::string& text) {
      target.clear();
      for (const std::string& word : parse_words(text)) {
        if (const std::string refused = check(word); !refused.empty())
          throw CLI::ValidationError(name, refused);
        target.push_back(std::stod(word));
      }
    };
    return shown(command_.add_option_function<std::string>(f.names, parse, f.help),
                 fmt::format("{}", fmt::join(target, ",")));
  }
  CLI::Option* added(const app::Field& f, app::Words& target) {
    const auto parse = [&target, f](const std::string& text) {
      target.words = parse_words(text);
      app::require_choices(f, target.words);
    };
    return shown(command_.add_option_function<std::string>(f.names, parse, f.help),
                 fmt::format("{}", fmt::join(target.words, ",")));
  }
  CLI::Option* added(const app::Field& f, app::ScheduleChoice& target) {
    const auto set = [&target](const std::string& name) { target = name; };
    return shown(command_.add_option_function<std::string>(f.names, set, f.help),
                 std::get<std::string>(target));
  }
  CLI::Option* added(const app::Field& f, std::vector<app::ScheduleChoice>& target) {
    const auto set = [&target](const std::vector<std::string>& names) {
      target.assign(names.begin(), names.end());
    };
    return command_.add_option_function<std::vector<std::string>>(f.names, set, f.help);
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

// Who reads stdout has read enough, as `head` has: nothing failed.
struct ReaderGone {};

[[noreturn]] void cannot_write(const std::error_code& error) {
  if (error == std::errc::broken_pipe) throw ReaderGone();
  throw RunFailed("standard output: " + error.message());
}

// What was printed must have arrived: a full device shows when the last of it is written.
void flush_output() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  cannot_write({errno, std::generic_category()});
}

// What is said of all commands may stand before "help" as well.
std::vector<std::string>::iterator behind_options_of_all(std::vector<std::string>& words) {
  auto word = words.begin();
  while (word != words.end() && word->starts_with("-")) {
    const bool valued = *word == "--format" || *word == "--seed";
    const bool known = valued || *word == "-q" || *word == "--quiet" || *word == "--json" ||
                       word->starts_with("--format=") || word->starts_with("--seed=");
    if (!known) return words.end();
    word += valued && word + 1 != words.end() ? 2 : 1;
  }
  return word;
}

// Words as they were given: "help run" asks what "run --help" does.
std::vector<std::string> words_of(int argc, char** argv, const std::vector<std::string>& commands) {
  std::vector<std::string> words(argv + 1, argv + argc);
  // Checked once for all words: everything behind this writes them to JSON and terminals.
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (utf8_prefix(words[i]) != words[i].size())
      throw UsageError(fmt::format("argument {} is not UTF-8: {}", i + 1, words[i]));
  }
  const auto first = behind_options_of_all(words);
  if (first != words.end() && *first == "help") {
    words.erase(words.begin(), first + 1);
    if (const auto text = words.size() == 1 ? help_on(words[0]) : std::nullopt) {
      fmt::print("{}", *text);
      throw CLI::Success();
    }
    const bool known = words.empty() || words[0].starts_with("-") ||
                       std::ranges::find(commands, words[0]) != commands.end();
    if (!known) {
      throw UsageError(fmt::format("{} is no command of weir, and no topic of its help{}", words[0],
                                   did_you_mean(words[0], with_topics(commands))));
    }
    words.emplace_back("--help");
  }
  return words;
}

bool asks_for_json(const std::vector<std::string_view>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--json" || words[i] == "--format=json") return true;
    if (words[i] == "--format" && i + 1 < words.size() && words[i + 1] == "json") return true;
  }
  return false;
}

// "--wait-for-quiet" without its number has it written out: CLI11 would take the next word for it.
void say_unsaid(std::vector<std::string>& words, const std::map<std::string, double>& unsaid) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto found = unsaid.find(words[i]);
    if (found == unsaid.end()) continue;
    if (i + 1 < words.size() && whole_number<double>(words[i + 1])) continue;
    words[i] += fmt::format("={}", found->second);
  }
}

int run_parsed(CLI::App& app, const std::map<std::string, double>& unsaid, int argc, char** argv) {
  try {
    std::vector<std::string> words = words_of(argc, argv, command_names(app));
    say_unsaid(words, unsaid);
    std::ranges::reverse(words);  // CLI11 takes them from the back
    app.parse(std::move(words));
  } catch (const CLI::Success& done) {  // --help, --version
    app.exit(done);
  } catch (const app::EndedTogether& ended) {  // what there is to say has been said
    return exit_code(ended.ending.kind);
  } catch (const StoppedBySignal& stopped) {
    flush_output();
    return exit_code_of_signal(stopped.signal);
  } catch (const CLI::ParseError& error) {
    throw UsageError(refusal(app, error));
  } catch (const std::system_error& error) {  // fmt throws where it cannot write
    if (std::ferror(stdout) == 0) throw;
    cannot_write(error.code());
  }
  flush_output();
  return 0;
}

}  // namespace

namespace {

std::string line_for_people(const std::string& line) {
  return "weir: " + shortened(printable(in_one_line(line))) + "\n";
}

// Where nobody listens it is lost, and nothing else.
}  // namespace

void complain(const std::string& line) {
  std::ignore = std::fputs(line_for_people(line).c_str(), stderr);
}

// By the stream of logs, which -q closes for all who have something to say and is no error.
void note(const std::string& line) { std::clog << line_for_people(line) << std::flush; }

app::Session CommandLine::session_for(const CLI::App& command, const app::Fields& fields) const {
  // Under the first long name of each, as requests ask for them.
  std::set<std::string> given;
  for (const app::Field& field : fields) {
    // The seed is an option of all commands, not of this one.
    if (is_seed(field)) continue;
    const std::string name = app::long_names(field).front();
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr) option = command.get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) given.insert(name);
  }
  app::Session session(app::files_read(fields), std::move(given));
  session.command = typed_;
  session.date = app::today();
  session.note = note;
  session.complain = complain;
  if (global_.quiet) {
    std::clog.setstate(std::ios_base::badbit);
  } else {
    session.log = [](const std::string& line) {
      std::ignore = std::fputs((printable(line) + "\n").c_str(), stderr);
    };
  }
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
  app_->set_version_flag("--version", app::version_line());
  app_->require_subcommand(1);
  app_->footer(exit_codes_text());
  app_->fallthrough();
  CLI::Option* json = app_->add_flag("--json", global_.json, "Print JSON on stdout");
  const auto choose = [this](const std::string& name) {
    format_ = table_format(name);
    global_.json = !format_;
  };
  app_->add_option_function<std::string>("--format", choose,
                                         "Tables on stdout as table, markdown or csv; json: --json")
      ->check(CLI::IsMember(output_formats()))
      ->excludes(json);
  app_->add_flag("-q,--quiet", global_.quiet, "Nothing on stderr but errors");
  app_->add_option("--seed", global_.seed, "Seed of everything random")
      ->capture_default_str()
      ->check(within<std::int64_t>(app::kSeed));
  // As --help and --version are, it is answered before a sub-command is asked for.
  const auto complete = [this](const std::string& shell) {
    fmt::print("{}", completion(shell, described_, options_of(*app_)));
    throw CLI::Success();
  };
  app_->add_option_function<std::string>("--completion", complete,
                                         "Print the completion script of bash, zsh or fish")
      ->trigger_on_parse();
  const auto write = [this](const std::string& folder) {
    // Options of all may stand behind a sub-command, but this one is of none.
    if (const auto chosen = app_->get_subcommands(); !chosen.empty())
      throw UsageError("--man-pages is no option of weir " + chosen.front()->get_name());
    if (folder.empty()) throw UsageError("--man-pages: expected a folder");
    write_manual(folder, described_, options_of(*app_));
    throw CLI::Success();
  };
  app_->add_option_function<std::string>("--man-pages", write,
                                         "Write the manual pages of all commands into this folder")
      ->trigger_on_parse();
}

CommandLine::~CommandLine() = default;

void CommandLine::take_seed(const std::string& command, const app::Fields& fields) const {
  const auto seed = std::ranges::find_if(fields, is_seed);
  if (seed != fields.end()) {
    *std::get<std::uint64_t*>(seed->target) = global_.seed;
  } else if (command == "run" && app_->get_option("--seed")->count() > 0) {
    // Elsewhere nothing is random without one; here who gives one expects another training.
    throw UsageError("--seed: a run has its plan's: weir plan --seed");
  }
}

void CommandLine::add(const char* name, const char* summary, app::Fields fields,
                      std::function<void(const app::Session&)> run) {
  CLI::App* command = app_->add_subcommand(name, summary);
  command->footer(examples_of(name));
  DescribedCommand& known = described_.emplace_back(DescribedCommand{name, summary, {}});
  for (const app::Field& field : fields) {
    if (is_seed(field)) continue;
    const CLI::Option& option = Options(*command).add(field);
    if (field.traits.unsaid) unsaid_["--" + app::long_names(field).front()] = *field.traits.unsaid;
    known.arguments.push_back(described(field, option));
  }
  // By value: the tables go when this function returns, the callback runs later.
  command->callback([this, command, fields = std::move(fields), run = std::move(run)] {
    const std::string name = command->get_name();
    if (format_ == TableFormat::csv && without_tables_.contains(name))
      throw UsageError("--format csv: weir " + name + " prints no table");
    take_seed(name, fields);
    app::find_models(fields);
    const app::Session session = session_for(*command, fields);
    // Before any work: a result that cannot be written is refused while nothing is lost.
    try {
      app::try_outputs(fields, session);
    } catch (...) {
      // Of processes that a launcher started each finds the same: the first one's end makes the
      // launcher end the others, which speak only where it was given another command.
      if (started_rank(std::getenv) > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
      throw;
    }
    run(session);
  });
}

void CommandLine::add_timeline(const char* command) {
  static constexpr const char* kHelp = "Draw the step in characters, folded to the terminal";
  app_->get_subcommand(command)->add_flag("--timeline", timeline_, kHelp);
  described_.back().arguments.push_back(
      {.names = {"--timeline"}, .help = kHelp, .takes_value = false, .group = "Options"});
}

bool CommandLine::print_json(const std::string& text) {
  if (text.empty()) return false;
  fmt::print("{}\n", text);
  return true;
}

int CommandLine::run(int argc, char** argv) {
  // As it was typed, quoted for a shell, so that a report's command can be run again.
  typed_ = "weir";
  for (int i = 1; i < argc; ++i) typed_ += " " + shell_quoted(argv[i]);
  try {
    return run_parsed(*app_, unsaid_, argc, argv);
  } catch (const ReaderGone&) {
    return exit_code_of_signal(SIGPIPE);  // as one that the signal ends
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    // What was asked to stop, and had nothing yet to show for it, has not failed of its own.
    const int signal = ending.kind == EndKind::failed ? heard_signal() : 0;
    const int code = signal != 0 ? exit_code_of_signal(signal) : exit_code(ending.kind);
    // Asked for before it was parsed: what cannot be parsed is told so, too.
    const bool json = asks_for_json({argv + 1, argv + argc});
    if (json) {
      const nlohmann::ordered_json told{
          {"schema", "weir.error/1"}, {"message", ending.line}, {"exit_code", code}};
      std::ignore = std::fputs(
          (told.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n")
              .c_str(),
          stderr);
    } else {
      complain(ending.line);
    }
    return code;
  }
}

}  // namespace weir

// Starts Python, and says what it said.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/jobs/torch_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "costmodel/table/costs.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/program_output.hpp"

namespace weir::app {
namespace {

constexpr std::string_view kOurs = "weir: ";

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

struct Said {
  int status = 0;                  // that Python ended with
  std::vector<std::string> lines;  // ours, without "weir: "
  std::string last;                // of any
};

// What the module prints is the user's own, but for the lines that begin as ours.
Said run_python(const TorchModelRequest& r, const std::filesystem::path& name) {
  const std::string command = fmt::format(
      "{} -m weir.torch_model {} --batch-sizes {} --crossing {} -o {} 2>&1 >/dev/null; echo $?",
      shell_word(r.python), shell_word(r.build), fmt::join(r.batch_sizes, ","), r.crossing,
      shell_word(name.string()));
  Said said;
  // Only stderr is read: our own lines in it begin with a prefix, whatever else the module says
  // there.
  std::vector<std::string> lines = job_lines(output_of(command, {.time = std::chrono::hours(24)}));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  said.status = std::stoi(lines.back());  // what our own echo wrote
  // The last line is the status; what stands before it is what was said.
  lines.pop_back();
  for (std::string& line : lines) {
    if (line.starts_with(kOurs)) said.lines.push_back(line.substr(kOurs.size()));
    if (!line.empty()) said.last = std::move(line);
  }
  return said;
}

// Its own line under the class that its status means.
void refuse(const TorchModelRequest& r, const Said& said) {
  if (said.status == 0) return;
  // Python without the package fails before our code runs, so it has no line of ours.
  const bool no_package = said.last.find("No module named") != std::string::npos;
  const std::string line = !said.lines.empty() ? said.lines.back()
                           : no_package        ? fmt::format(
                                                     "{}: the package weir is not in this "
                                                            "Python; --python names another",
                                                     r.python)
                                        : fmt::format("{}: {}", r.python, said.last);
  switch (said.status) {
    case 2:
      throw UsageError(line);
    case 3:
      throw InputError("--from torch", "", line);
    case 5:
    case 126:  // a shell's, for what it cannot start, and does not find
    case 127:
      throw MissingComponent(line);
    default:
      if (no_package && said.lines.empty()) throw MissingComponent(line);
      throw RunFailed(line);
  }
}

// FILE.py's text is kept, so that an exported script finds it wherever it runs.
SourceJob job_of(const TorchModelRequest& r) {
  SourceJob job{.tool = "torch"};
  job.lines = {r.build, fmt::format("{}", r.crossing)};
  const std::string file = r.build.substr(0, r.build.rfind(':'));
  if (!file.ends_with(".py")) return job;
  for (std::string& line : job_lines(read_text_file(file))) job.lines.push_back(std::move(line));
  return job;
}

}  // namespace

TorchModel read_torch_model(const TorchModelRequest& r, const Session& session) {
  std::filesystem::path name = std::filesystem::absolute(r.output);
  name.replace_extension();
  const Said said = run_python(r, name);
  refuse(r, said);
  for (const std::string& line : said.lines) session.note(line);
  session.note(fmt::format("{}: by {} -m weir.torch_model", r.build, r.python));
  TorchModel found{.model = name.string() + ".model.json", .costs = name.string() + ".costs.json"};
  found.dtype = load_costs(found.costs).dtype;
  found.job = job_of(r);
  return found;
}

}  // namespace weir::app

// The arguments of a command as a file holds them: one a line, or a shell script that starts the
// command, which is followed and not executed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/shell/script.hpp"

namespace weir {

// The words of every command that a script starts, in shell/script.hpp's way.
[[nodiscard]] std::vector<std::vector<std::string>> shell_commands(const std::string& text,
                                                                   const std::string& file);

// That names of the environment were taken; nullopt where none of them says anything of a job.
[[nodiscard]] std::optional<ShellRemark> remark_on_taken(std::vector<std::string> names);

// Every "--name value..." of the command of a script that trains a model, or of all its commands
// where none says a model's size; a quoted word that holds an option and its value, as NVIDIA's
// scripts have them in arrays, is both. Names are compared without dashes in front and with '-' for
// '_'; the last of several counts. Reading a name marks it, so that `unread` can tell what nobody
// asked for.
class Arguments {
 public:
  Arguments(const std::string& text, std::string file, const ShellEnvironment& environment = {},
            const ShellFiles& files = {});
  // Of lines that were kept of a job: all are the training's, also those whose names a launcher
  // has and those whose values are programs.
  [[nodiscard]] static Arguments kept(const std::string& lines, std::string file,
                                      const ShellEnvironment& environment, const ShellFiles& files);

  [[nodiscard]] bool empty() const { return given_.empty(); }
  [[nodiscard]] bool flag(std::string_view name);  // given, whatever its value
  [[nodiscard]] std::optional<std::string> text(std::string_view name);
  [[nodiscard]] std::string text_or(std::string_view name, std::string otherwise);
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t low,
                                     std::int64_t high);  // must be there
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(std::string_view name, std::int64_t low,
                                                          std::int64_t high);
  [[nodiscard]] std::int64_t integer_or(std::string_view name, std::int64_t otherwise,
                                        std::int64_t low, std::int64_t high);
  [[nodiscard]] double number_or(std::string_view name, double otherwise, double low, double high);
  // Given, with a value that is known here where it has one. Marks nothing.
  [[nodiscard]] bool says(std::string_view name) const;
  // Another name for the same argument, which fills its place where the other is not given.
  void alias(std::string_view other, std::string_view name);
  // As if the file had it: in the place of one that is not known here. A file that says another
  // value is contradicted: UsageError, by the plan's word for it.
  void fill(std::string_view name, const std::string& value, std::string_view field);
  // In the place of what the file has, which its tool does not go by.
  void refill(std::string_view name, const std::string& value);
  // What the script sets in its own environment: "export NVTE_FLASH_ATTN=0".
  [[nodiscard]] std::optional<std::string> environment_of(std::string_view variable) const;

  [[nodiscard]] std::vector<std::string> names() const;   // sorted
  [[nodiscard]] std::vector<std::string> unread() const;  // sorted
  [[nodiscard]] std::vector<std::string> ambiguous()
      const;  // read, and given several times with different values
  [[nodiscard]] std::string values(std::string_view name) const;  // for people: joined by blanks
  // Whether it is the launcher's: torchrun's, Slurm's or another program's that starts the
  // training.
  [[nodiscard]] bool of_launcher(std::string_view name) const;
  // Given without a value that is known here, where one may have been meant.
  [[nodiscard]] bool is_open(std::string_view name) const;
  // By fill(), in the place of what the file has.
  [[nodiscard]] bool was_filled(std::string_view name) const;
  // "--name value" as it was written, in a shell's words; empty where it is not given.
  [[nodiscard]] std::string line(std::string_view name) const;
  // What of the script was not known, and what was read then.
  [[nodiscard]] const std::vector<ShellRemark>& remarks() const { return remarks_; }
  // The Python program that is started, without its folder; empty where none is.
  [[nodiscard]] const std::string& program() const { return program_; }
  // Processes that mpirun or its like starts, one a device: "-np 64".
  [[nodiscard]] std::optional<std::int64_t> processes() const { return processes_; }
  // What #SBATCH lines ask for.
  [[nodiscard]] std::optional<std::int64_t> slurm_nodes() const { return nodes_; }
  [[nodiscard]] std::optional<std::int64_t> slurm_devices() const { return gpus_; }
  // The text of a file that the script itself writes, or that `files` has; nullopt: not known.
  [[nodiscard]] std::optional<std::string> file_text(const std::string& path) const;
  [[noreturn]] void fail(std::string_view name, const std::string& message) const;

 private:
  struct Given {
    std::string written;  // with dashes
    std::vector<std::string> values;
    bool read = false;
    bool differed = false;
    bool launcher = false;
    bool open = false;    // words that are not known here may be its value
    bool filled = false;  // by fill()
  };
  Arguments() = default;
  void read_script_of(const std::string& text, const ShellEnvironment& environment);
  Given* find(std::string_view name);
  const Given* look_up(std::string_view name) const;
  std::string_view own_name(std::string_view name) const;  // as the file calls it
  void read(const std::vector<std::string>& command);
  [[nodiscard]] std::string where_the_job_ends() const;
  // A word among the arguments that stands for what is not known here: it is remembered.
  void leave_open(const std::string& word);
  std::string file_;
  bool kept_ = false;  // all are the training's
  std::string program_;
  ShellFiles files_;
  std::map<std::string, std::string, std::less<>> written_, set_;
  std::vector<ShellRemark> remarks_;
  std::optional<ShellPlace> place_;  // of the command that trains
  std::vector<std::string> open_;    // words of the job that are not known and may hold arguments
  std::optional<std::int64_t> nodes_, gpus_, processes_;
  std::map<std::string, Given, std::less<>> given_;
  std::map<std::string, std::string, std::less<>> aliases_;  // by the name that is asked for
};

}  // namespace weir

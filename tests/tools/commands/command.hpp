// The built command in a folder of its own, which is gone again after the test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace weir {

struct CommandResult {
  int code;
  std::string out;  // stdout and stderr, where the arguments do not send them elsewhere
};

class InFolder : public testing::Test {
 protected:
  InFolder()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-command-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~InFolder() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  std::string read(const std::string& name) {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // `environment`: what is set for this command alone, as "COLUMNS=70".
  CommandResult weir(const std::string& arguments, const std::string& environment = "") const {
    return shell(environment + " " WEIR_COMMAND " " + arguments);
  }
  CommandResult shell(const std::string& command) const {
    const std::string line = "cd " + folder_.string() + " && { " + command + "; } 2>&1";
    // NOLINTNEXTLINE(cert-env33-c): a shell, as users type into one
    FILE* pipe = ::popen(line.c_str(), "r");
    std::string out;
    std::array<char, 4096> buffer{};
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
      out.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    return {WEXITSTATUS(status), out};
  }
  // It ends with this exit code, and says these words.
  void refuses(const std::string& arguments, int code, const std::string& words) const {
    const CommandResult result = weir(arguments);
    EXPECT_EQ(result.code, code) << arguments << ": " << result.out;
    EXPECT_THAT(result.out, testing::HasSubstr(words)) << arguments;
  }
  std::filesystem::path folder_;
};

}  // namespace weir

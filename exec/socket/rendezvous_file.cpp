// SPDX-License-Identifier: Apache-2.0
#include "exec/socket/rendezvous_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kFirstLine = "weir rendezvous 1";
constexpr std::size_t kMostBytes = 4096;

template <class Number>
bool parse(const std::string& text, Number& number, int base) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

bool parse(const std::string& text, RunNumber& run) {
  if (text.size() != 2 * run.size()) return false;
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (!parse(text.substr(2 * i, 2), run[i], 16)) return false;
  }
  return true;
}

template <std::size_t N>
bool copy(const std::string& text, std::array<char, N>& into) {
  text.copy(into.data(), N - 1);
  return !text.empty() && text.size() < N;
}

std::string hex(const RunNumber& run) { return fmt::format("{:02x}", fmt::join(run, "")); }

}  // namespace

std::string to_text(const Greeting& leader) {
  std::string text =
      fmt::format("{}\nrun {}\nprocesses {}\nhost {}\nkernel {:x}\nport {}\n", kFirstLine,
                  hex(leader.run), leader.count, leader.host.data(), leader.kernel, leader.port);
  for (const auto& address : leader.addresses) {
    if (address[0] != '\0') text += fmt::format("address {}\n", address.data());
  }
  return text;
}

std::optional<Greeting> parse_rendezvous(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return std::nullopt;
  Greeting leader;
  std::size_t addresses = 0;
  while (std::getline(lines, line)) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) return std::nullopt;
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    const bool good = key == "run"         ? parse(value, leader.run)
                      : key == "processes" ? parse(value, leader.count, 10)
                      : key == "host"      ? copy(value, leader.host)
                      : key == "kernel"    ? parse(value, leader.kernel, 16)
                      : key == "port"      ? parse(value, leader.port, 10) && leader.port < 65536
                      : key == "address" && addresses < leader.addresses.size()
                          ? copy(value, leader.addresses[addresses++])
                          : false;
    if (!good) return std::nullopt;
  }
  if (leader.port == 0) return std::nullopt;
  return leader;
}

std::optional<Greeting> read_rendezvous(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_directory(file.has_parent_path() ? file.parent_path() : ".", error)) {
    throw InputError(
        file.string(), "",
        "its folder does not exist; processes meet by a file that all of them can read");
  }
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  std::string text;
  if (std::filesystem::is_regular_file(file, error)) {
    std::ifstream in(file, std::ios::binary);
    text.resize(kMostBytes);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad()) return std::nullopt;  // it was replaced or removed meanwhile
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (text.empty()) return std::nullopt;
  }
  std::optional<Greeting> leader = parse_rendezvous(text);
  if (!leader)
    throw InputError(file.string(), "",
                     "is there and is no rendezvous file; name one that is not there yet");
  return leader;
}

RendezvousFile::RendezvousFile(std::filesystem::path file, const Greeting& leader)
    : file_(std::move(file)), run_(leader.run) {
  static_cast<void>(read_rendezvous(file_));  // what is something else stays
  const std::string text = to_text(leader);
  const std::string beside = file_.string() + "." + hex(run_);
  const int handle = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written =
      handle >= 0 && ::write(handle, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (handle >= 0) written = ::close(handle) == 0 && written;
  if (!written || ::rename(beside.c_str(), file_.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    throw InputError(file_.string(), "",
                     fmt::format("cannot be written: {}", std::strerror(error)));
  }
}

bool RendezvousFile::stands() const noexcept {
  try {
    const std::optional<Greeting> there = read_rendezvous(file_);
    return !there || there->run == run_;
  } catch (...) {
    return false;
  }
}

RendezvousFile::~RendezvousFile() {
  if (stands()) ::unlink(file_.c_str());
}

}  // namespace weir

// The text form, and what both forms share.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "costmodel/links/nccl_tests_json.hpp"
#include "plan/text/words_of.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool all_digits(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

// A line as the test printed it, without what launchers put before each: "[1,0]<stdout>:" (mpirun
// --tag-output), "0: " (srun --label), "[0] " (mpiexec), "[pod/launcher/main] " and a time stamp
// (kubectl logs --prefix --timestamps).
std::string without_label(std::string_view line) {
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789,") == text.npos;
  };
  while (true) {
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == line.npos) return "";
    const std::string_view rest = line.substr(start);
    const std::string_view first = rest.substr(0, rest.find(' '));
    const std::size_t close = first.find(']');
    const bool bracket = first.front() == '[' && close != first.npos &&
                         (first.starts_with("[pod/") || digits(first.substr(1, close - 1)));
    if (const auto behind = bracket ? first.substr(close + 1) : "";
        bracket && (behind.starts_with("<stdout>:") || behind.starts_with("<stderr>:"))) {
      line = rest.substr(rest.find(':') + 1);
      continue;
    }
    const bool number = first.ends_with(':') && digits(first.substr(0, first.size() - 1));
    const bool stamp = first.size() > 18 && digits(first.substr(0, 4)) && first[4] == '-' &&
                       first[10] == 'T' && first[13] == ':';
    if (first.size() == rest.size() || !(number || stamp || (bracket && close + 1 == first.size())))
      return std::string(line);
    line = rest.substr(first.size() + 1);
  }
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& file) : in_(text), file_(file) {}

  std::vector<NcclTest> tests() {
    for (std::string raw; std::getline(in_, raw);) {
      ++line_;
      const std::string line = without_label(raw);
      const auto words = words_of(line);
      const bool numbers = !words.empty() && !columns_.empty() && number(words.front());
      if (line.starts_with('#')) {
        comment(line);
      } else if (line.find(" NCCL INFO ") != std::string::npos ||
                 line.find(" NCCL WARN ") != std::string::npos) {
        // NCCL's own lines may break a row in two: what stands before them is kept.
        if (numbers && (all_digits(words.front()) || !cut_.empty())) cut(words);
      } else if (numbers && !cut_.empty()) {
        cut_.insert(cut_.end(), words.begin(), words.end());
        row(std::exchange(cut_, {}));
      } else if (numbers && all_digits(words.front())) {
        row(words);
      } else if (failure_.empty() && line.find("failure") != std::string::npos) {
        // The first failure is the cause; those behind it follow from it.
        failure_ = line.substr(0, 120);
        failed_at_ = line_;
      }
    }
    finish();
    if (tests_.empty()) throw InputError(file_, "", "holds no results of nccl-tests");
    return std::move(tests_);
  }

 private:
  struct Half {  // one of out-of-place and in-place
    std::size_t time = 0, bus = 0, wrong = 0;
  };

  void comment(const std::string& line) {
    cut_.clear();
    const auto words = words_of(line.substr(1));
    if (words.size() == 4 && words[0] == "Collective" && words[2] == "starting:") {
      finish();
      named_ = collective_of(words[3]);
    } else if (words.size() > 2 && words[0] == "Rank" && all_digits(words[1])) {
      device(line, words);
    } else if (std::ranges::find(words, "size") != words.end() &&
               std::ranges::find(words, "busbw") != words.end()) {
      header(words);
    } else if (!columns_.empty() && words.size() > 1 && words[0] == "(B)" &&
               line.find("(us)") == std::string::npos) {
      fail("time", "expected microseconds, (us)");
    } else if (line.find("Out of bounds values") != std::string::npos &&
               line.find("FAILED") != std::string::npos) {
      fail("#wrong", "the test found wrong values: nothing is learnt from such a link");
    }
  }

  // "#  Rank  0 Group  0 Pid 361042 on cnode2-005 device  0 [0000:52:00] NVIDIA H100 80GB HBM3"
  void device(const std::string& line, const std::vector<std::string>& words) {
    if (started_) finish();  // old versions have no line that starts a test
    if (!listed_.insert(words[1]).second) {
      fail("Rank " + words[1],
           "is listed twice: these are several runs, or processes that each ran alone because "
           "nccl-tests was built without MPI=1");
    }
    // NCCL_TESTS_SPLIT runs several communicators at once: the first stands for all.
    const std::string group = words.size() > 3 && words[2] == "Group" ? words[3] : "";
    if (test_.ranks > 0 && group != group_) return;
    group_ = group;
    const auto on = std::ranges::find(words, "on");
    if (on != words.end() && on + 1 != words.end()) hosts_.insert(*(on + 1));
    ++test_.ranks;
    const auto bracket = line.rfind(']');
    if (bracket != std::string::npos && bracket + 2 < line.size())
      test_.device = words_joined(line.substr(bracket + 1));
  }
  static std::string words_joined(const std::string& text) {
    std::string all;
    for (const std::string& word : words_of(text)) all += (all.empty() ? "" : " ") + word;
    return all;
  }

  void header(const std::vector<std::string>& words) {
    started_ = true;
    columns_ = words;
    halves_.clear();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& name = columns_[c];
      if (name == "cputime")
        fail("cputime", "the CPU's time says nothing of a link: run without -C");
      if (name == "time") halves_.push_back({.time = c});
      if (halves_.empty()) continue;
      if (name == "busbw") halves_.back().bus = c;
      if (name == "#wrong" || name == "error") halves_.back().wrong = c;
    }
    stamped_ = columns_.back() == "timestamp";
    if (columns_.front() != "size" || halves_.empty())
      fail("header", "expected the columns size and time");
  }

  void row(std::vector<std::string> words) {
    fill_blanks(words);
    const std::size_t expected =
        columns_.size() + (stamped_ ? 1 : 0);  // a time stamp is a date and a time
    if (words.size() != expected) {
      fail("row",
           fmt::format("expected {} columns as in the header, found {}", expected, words.size()));
    }
    const auto size = number(words[0]);
    constexpr double kMostBytes = 1e15;
    if (!size || *size > kMostBytes) fail("size", "expected a number of bytes");
    const auto redop = std::ranges::find(columns_, "redop"),
               root = std::ranges::find(columns_, "root");
    if (redop != columns_.end()) redop_ = words[static_cast<std::size_t>(redop - columns_.begin())];
    if (root != columns_.end()) root_ = words[static_cast<std::size_t>(root - columns_.begin())];
    bool checked = false;  // the half before
    for (const Half& half : halves_) {
      const auto time = number(words[half.time]), bus = number(words[half.bus]),
                 wrong = number(words[half.wrong]);
      if (!time || *time <= 0)
        fail("time", fmt::format("\"{}\": expected microseconds", words[half.time]));
      if (half.wrong > 0 && wrong && *wrong > 0 && columns_[half.wrong] == "#wrong") {
        fail("#wrong", "the test found wrong values: nothing is learnt from such a link");
      }
      if (half.wrong > 0) {
        checked_in_place_ = wrong.has_value();
        unchecked_in_place_ = checked && !wrong;
      }
      checked = wrong.has_value();
      if (*size <= 0) continue;  // latency of nothing at all
      test_.samples.push_back({Bytes(static_cast<std::int64_t>(*size)), Seconds(*time * 1e-6)});
      if (bus && *bus > most_bus_) {
        most_bus_ = *bus;
        // How bus and algorithm bandwidth differ tells collectives apart where the log does not
        // (guess).
        measured_factor_ = *bus / (*size / (*time * 1e-6) / 1e9);
      }
    }
  }

  // A row may end in the middle where NCCL's own lines go to the same place: "8 2 float sum -1host:
  // 26:68 [0] NCCL INFO ...". What is left of it follows on a line of its own.
  void cut(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (word.find_first_of(":[") == std::string::npos) {
        cut_.push_back(word);
        continue;
      }
      double value = 0;
      const auto [end, error] =
          std::from_chars(word.data(), word.data() + word.size(), value, std::chars_format::fixed);
      if (error == std::errc{})
        cut_.emplace_back(word.data(), end);
      else if (word.starts_with("N/A"))
        cut_.emplace_back("N/A");
      return;
    }
  }

  // A test that neither reduces nor has a root may print nothing in those columns.
  void fill_blanks(std::vector<std::string>& words) const {
    const std::size_t whole = columns_.size() + (stamped_ ? 1 : 0);
    if (words.size() + 2 < whole) return;
    for (const std::string_view name : {"redop", "root"}) {
      const auto at = std::ranges::find(columns_, name);
      if (at == columns_.end() || words.size() >= whole) continue;
      const auto here = words.begin() + (at - columns_.begin());
      if (name == "root" || number(*here)) words.insert(here, "");
    }
  }

  void finish() {
    if (started_ || !named_.empty()) {
      if (test_.samples.empty()) {
        const std::string what = named_.empty() ? "the test" : named_;
        throw InputError(file_, fmt::format("line {}", failure_.empty() ? line_ : failed_at_),
                         failure_.empty() ? fmt::format("{} has no results", what)
                                          : fmt::format("{} failed before its first result: {}",
                                                        what, failure_));
      }
      // Without the list nobody knows how many ranks took part.
      if (listed_.empty()) {
        fail("Rank",
             "the lines \"#  Rank  0 ...\" above the table, which name the devices, are "
             "missing: give nccl-tests' whole output");
      }
      complete_test(test_, static_cast<int>(hosts_.size()), named_.empty() ? guess() : named_,
                    file_);
      tests_.push_back(std::move(test_));
    }
    // The next test begins from nothing: no column or failure of this one may reach it.
    test_ = {};
    hosts_.clear();
    listed_.clear();
    named_.clear();
    columns_.clear();
    cut_.clear();
    redop_ = root_ = failure_ = group_ = "";
    started_ = checked_in_place_ = unchecked_in_place_ = false;
    most_bus_ = measured_factor_ = 0;
  }

  // Old logs do not name their collective; its columns and how bus and algorithm bandwidth differ
  // do.
  [[nodiscard]] std::string guess() const {
    const double n = test_.ranks;
    const auto near = [this](double factor) {
      return std::abs(measured_factor_ - factor) < 0.02 * factor;
    };
    const bool rooted = !root_.empty() && root_ != "-1",
               reduces = !redop_.empty() && redop_ != "none";
    // Of more than two ranks an all_reduce's factor is no other's, whatever the columns.
    if (near(2 * (n - 1) / n) && n > 2) return "all_reduce";
    if (near((n - 1) / n) && !rooted) {
      if (reduces) return "reduce_scatter";
      return unchecked_in_place_ ? "alltoall" : "all_gather";  // an all-to-all has no in-place form
    }
    if (!near(1)) return "unnamed";
    if (rooted) return reduces ? "reduce" : "broadcast";
    if (n > 2) return "sendrecv";
    // Between two an all_reduce moves as much as a sendrecv, which has no in-place form to check.
    if (!reduces) return "unnamed";
    return checked_in_place_ ? "all_reduce" : unchecked_in_place_ ? "sendrecv" : "unnamed";
  }

  [[noreturn]] void fail(const std::string& column, const std::string& message) const {
    throw InputError(file_, fmt::format("line {}: {}", line_, column), message);
  }

  std::istringstream in_;
  const std::string& file_;
  int line_ = 0, failed_at_ = 0;
  std::vector<NcclTest> tests_;
  NcclTest test_;
  std::set<std::string> hosts_, listed_;  // nodes, numbers of ranks
  std::string named_, redop_, root_, failure_, group_;
  std::vector<std::string> columns_, cut_;  // words of a row's beginning
  std::vector<Half> halves_;
  bool stamped_ = false, started_ = false, checked_in_place_ = false, unchecked_in_place_ = false;
  double most_bus_ = 0, measured_factor_ = 0;
};

}  // namespace

std::vector<NcclTest> read_nccl_tests(const std::string& text, const std::string& file) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return read_nccl_tests_json(text, file);
  return Reader(text, file).tests();
}

}  // namespace weir

// What people read on stdout: lines and tables. Names come from files, and a file may hold
// anything: what would steer the terminal is shown as what it is (plan/text/quote, printable).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "plan/text/quote.hpp"
#include "tools/weir/print/table.hpp"

namespace weir {

class Printout {
 public:
  struct Options {
    TableFormat format = TableFormat::table;
    bool timeline = false;  // drawn, where the command can
  };
  explicit Printout(Options options) : format_(options.format), timeline_(options.timeline) {}

  // A line, or a part of one. As CSV stdout has the tables alone, and lines go to stderr, by the
  // stream of logs, which -q closes.
  template <class... Arguments>
  void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string text = printable(fmt::format(format, std::forward<Arguments>(arguments)...));
    if (format_ == TableFormat::csv) {
      std::clog << text << std::flush;
    } else {
      fmt::print("{}", text);
    }
  }
  // By the format asked for, and as wide as lines are.
  void show(const Table& table);
  // Of lines, in characters: as asked for, else COLUMNS where that is set, else the terminal's.
  void set_width(std::optional<std::size_t> width) { width_ = width; }
  [[nodiscard]] std::optional<std::size_t> width() const;

  // Whether programs read it, who want every row.
  [[nodiscard]] bool for_programs() const { return format_ == TableFormat::csv; }
  [[nodiscard]] bool wants_timeline() const { return timeline_; }

 private:
  TableFormat format_;
  bool timeline_;
  bool shown_ = false;  // a table
  std::optional<std::size_t> width_;
};

}  // namespace weir

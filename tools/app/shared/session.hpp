// What a use case has from whoever runs it: someone to tell, and a guard over the files it reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::app {

class Session {
 public:
  // `reads`: the files that the request names to be read (files_read() of its fields); `given`: the
  // names of the fields that someone set, as long_names() has them.
  explicit Session(std::vector<std::filesystem::path> reads = {}, std::set<std::string> given = {})
      : reads_(std::move(reads)), given_(std::move(given)) {}

  [[nodiscard]] bool given(const std::string& field) const { return given_.contains(field); }
  [[nodiscard]] const std::set<std::string>& all_given() const { return given_; }

  // Throws UsageError, "--NAME WHY", for the first of `fields` that someone set: one that would be
  // passed over.
  void refuse(std::initializer_list<const char*> fields, std::string_view why) const;

  // The request as someone typed or called it, and the day ("2026-11-23"); empty: not known.
  std::string command, date;

  // What people must know, in one line.
  std::function<void(const std::string& line)> note = [](const std::string&) {};
  // What went wrong: an end before the last step, damage that is passed over. An error, so it is
  // said where `note` is silenced (-q), too. None: by `note`.
  std::function<void(const std::string& line)> complain{};
  [[nodiscard]] const std::function<void(const std::string& line)>& fault() const {
    return complain ? complain : note;
  }
  // What is being done, for those who watch.
  std::function<void(const std::string& line)> log = [](const std::string&) {};
  // `done` of `of` parts of the work called `what`.
  std::function<void(const std::string& what, int done, int of)> progress = [](const std::string&,
                                                                               int, int) {};

  // Whether a model that a job names may be looked for in Hugging Face's cache.
  bool hub = true;

  // Progress of the work called `what`, for as long as this session is there.
  [[nodiscard]] std::function<void(int done, int of)> part(std::string what) const {
    return [this, what = std::move(what)](int done, int of) { progress(what, done, of); };
  }

  // A file about to be written, made sure of: throws UsageError where it is one that is read.
  [[nodiscard]] const std::filesystem::path& output(const std::filesystem::path& file) const;
  // What a file of the request names in turn, as a plan its model, is guarded from here on too.
  void guard(const std::filesystem::path& file) const { reads_.push_back(file); }

 private:
  mutable std::vector<std::filesystem::path> reads_;
  std::set<std::string> given_;
};

}  // namespace weir::app

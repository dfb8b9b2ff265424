// Files of one result take their places together, and what was there before is never lost.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/new_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "plan/text/ending.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::new_file_test {
namespace {

using testing::HasSubstr;

class NewFilesOf : public testing::Test {
 protected:
  NewFilesOf()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-new-files-" + std::to_string(::getpid()))) {
    for (const char* name : {"a", "b", "last"}) write_file_atomically(folder_ / name, "old");
  }
  ~NewFilesOf() override { std::filesystem::remove_all(folder_); }

  // Where a folder stands no file is renamed to.
  void block(const char* name) {
    std::filesystem::remove(folder_ / name);
    std::filesystem::create_directory(folder_ / name);
  }
  void commit() {
    NewFiles files;
    for (const char* name : {"a", "b", "last"}) files.add(folder_ / name, "new");
    files.commit();
  }
  std::string read(const char* name) { return read_text_file(folder_ / name); }
  std::ptrdiff_t files() { return std::distance(std::filesystem::directory_iterator(folder_), {}); }
  std::filesystem::path folder_;
};

TEST_F(NewFilesOf, TakeTheirPlacesTogether) {
  commit();
  for (const char* name : {"a", "b", "last"}) EXPECT_EQ(read(name), "new");
  EXPECT_EQ(files(), 3);
}

TEST_F(NewFilesOf, WhereTheFirstCannotAllAreAsTheyWere) {
  block("a");
  EXPECT_THROW(commit(), InputError);
  EXPECT_EQ(read("b"), "old");
  EXPECT_EQ(read("last"), "old");
  EXPECT_EQ(files(), 3);
}

// a is new: "last" would say that it is of the old ones.
TEST_F(NewFilesOf, WhereALaterCannotTheLastStandsBesideItsPlace) {
  block("b");
  EXPECT_THROW(commit(), InputError);
  EXPECT_EQ(read("a"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "last"));
  int kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".before") continue;
    EXPECT_EQ(read_text_file(entry.path()), "old");
    ++kept;
  }
  EXPECT_EQ(kept, 1);
}

// A file that happens to have such a name is somebody's own.
TEST_F(NewFilesOf, WhatStandsBesideThemStays) {
  write_file_atomically(folder_ / "last.before", "mine");
  commit();
  EXPECT_EQ(read("last.before"), "mine");
  block("last");
  NewFiles one;
  one.add(folder_ / "last", "newer");
  EXPECT_THROW(one.commit(), InputError);
  EXPECT_EQ(read("last.before"), "mine");
}

TEST_F(NewFilesOf, MayBeNone) { EXPECT_NO_THROW(NewFiles().commit()); }

TEST_F(NewFilesOf, APipeIsReadOnce) {
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto read_what_is_written = [&](const std::string& text) {
    std::thread writer([&] { NewFile(pipe).write(text); });
    std::string line;
    try {
      line = read_text_file(pipe);
    } catch (const InputError& error) {
      line = error.what();
    }
    writer.join();
    return line;
  };
  EXPECT_EQ(read_what_is_written("{}"), "{}");
  EXPECT_THAT(read_what_is_written(""), HasSubstr("is a pipe without anything in it"));
}

// What a thread that cannot be made is told as, by the C++ library and by oneTBB.
TEST(Endings, WithoutThreadsAreNoFault) {
  const auto line_of = [](const auto& error) {
    return ending_of(std::make_exception_ptr(error)).line;
  };
  const std::error_code none(EAGAIN, std::generic_category());
  EXPECT_EQ(line_of(std::system_error(none)), "out of memory or threads");
  EXPECT_EQ(line_of(std::runtime_error("pthread_create has failed: Resource temporarily "
                                       "unavailable")),
            "out of memory or threads");
  EXPECT_THAT(line_of(std::runtime_error("x")), HasSubstr("a fault of weir's own: x"));
}

}  // namespace
}  // namespace weir::new_file_test

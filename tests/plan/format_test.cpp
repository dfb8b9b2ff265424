// A description is a reader, a writer and a table: a shelf of books, each key once.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/format/keys.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::format_test {
namespace {

struct Book {
  std::string title;
  int pages = 0;
  std::optional<double> rating;
};
struct Shelf {
  Bytes room{0};
  Seconds walk{0};
  int lamps = 1;
  std::vector<Book> books;
};

using format::Key;
using format::key;
using format::maybe;

constexpr Key<Book> kBook[] = {
    key<&Book::title>("title"),
    key<&Book::pages>("pages", "pages | always | cover to cover", {1, 5000}),
    key<&Book::rating>("rating", "of 1", {0, 1}).nullable(),
};
constexpr Key<Shelf> kShelf[] = {
    key<format::kWhole, format::Schema>("schema").expect("shelf/1"),
    key<&Shelf::room, format::WithUnit>("room", "bytes | always |"),
    key<&Shelf::walk>("walk_s", "s | always | from the desk"),
    maybe<&Shelf::lamps>("lamps", "| where it is not 1 |", {0, 9})
        .refuse("expected other than 1 (left out where it is)"),
    maybe<&Shelf::books, format::Objects<kBook>>("books", "| where there are any |"),
};
constexpr auto kLit = [](const JsonObject& object, const Shelf& shelf) {
  if (shelf.lamps == 0 && !shelf.books.empty()) object.fail("books", "nobody can read them");
};

Shelf read_shelf(const std::string& text) {
  const Json json = parse_json(text, "shelf.json");
  JsonObject object(json, "shelf.json", "");
  return format::read(object, kShelf, kLit);
}

constexpr const char* kFull =
    R"({"schema":"shelf/1","room":"2 GiB","walk_s":1.5,"lamps":2,)"
    R"("books":[{"title":"A","pages":7,"rating":null},{"title":"B","pages":9,"rating":0.5}]})";

// What is written is what was read, byte by byte; what says nothing is left out.
TEST(Format, WritesWhatItReads) {
  const Shelf shelf = read_shelf(kFull);
  EXPECT_EQ(shelf.room, Bytes(std::int64_t{2} << 30));
  EXPECT_EQ(shelf.walk, Seconds(1.5));
  ASSERT_EQ(shelf.books.size(), 2u);
  EXPECT_FALSE(shelf.books[0].rating);
  EXPECT_EQ(shelf.books[1].rating, 0.5);
  EXPECT_EQ(format::written(shelf, kShelf).dump(), kFull);
  EXPECT_EQ(format::written(Shelf{}, kShelf).dump(),
            R"({"schema":"shelf/1","room":"0 GB","walk_s":0.0})");
}

// File, path of keys, what was expected; the check between keys comes last.
TEST(Format, SaysWhatIsWrong) {
  const auto wrong = [](const std::string& keys) {
    return complaint(
        [&] { static_cast<void>(read_shelf(fmt::format(R"({{"schema":"shelf/1",{}}})", keys))); });
  };
  const std::string room = R"("room":"1 GB","walk_s":0)";
  EXPECT_EQ(wrong(R"("room":"1 GB")"), "shelf.json: walk_s: is missing");
  EXPECT_EQ(wrong(R"("room":"big","walk_s":0)"),
            "shelf.json: room: expected an amount with its unit, as \"80 GiB\"");
  EXPECT_EQ(wrong(room + R"(,"lamps":10)"), "shelf.json: lamps: expected an integer from 0 to 9");
  EXPECT_EQ(wrong(room + R"(,"lamps":1)"),
            "shelf.json: lamps: expected other than 1 (left out where it is)");
  EXPECT_EQ(wrong(room + R"(,"books":[{"title":"A","pages":0,"rating":null}])"),
            "shelf.json: books[0].pages: expected an integer from 1 to 5000");
  EXPECT_EQ(wrong(room + R"(,"books":[{"title":"A","pages":1}])"),
            "shelf.json: books[0].rating: is missing");
  EXPECT_EQ(wrong(room + R"(,"lamps":0,"books":[{"title":"A","pages":1,"rating":1}])"),
            "shelf.json: books: nobody can read them");
  EXPECT_EQ(wrong(room + R"(,"plants":3)"), "shelf.json: plants: unknown key");
}

// A row a key, those of a list's elements below it.
TEST(Format, DescribesItself) {
  std::string table;
  for (const auto& [path, type, cells] : format::described("shelf/1", kShelf).rows)
    table += fmt::format("{}: {}: {}\n", path, type, cells);
  EXPECT_EQ(table,
            "schema: text: \n"
            "room: text: bytes | always |\n"
            "walk_s: number: s | always | from the desk\n"
            "lamps: integer: | where it is not 1 |\n"
            "books: list of objects: | where there are any |\n"
            "books[].title: text: \n"
            "books[].pages: integer: pages | always | cover to cover\n"
            "books[].rating: number or null: of 1\n");
}

}  // namespace
}  // namespace weir::format_test

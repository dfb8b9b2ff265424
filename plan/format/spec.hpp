// What a description says of one key, whatever the object and the member: its name, the values it
// takes, when it may be absent, and the row of docs/formats.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "plan/text/strict_json.hpp"

namespace weir::format {

// Of a number, or of each in a list; without an end: as JsonObject has it.
struct Range {
  double low = 0;
  double high = std::numeric_limits<double>::max();
};

struct Spec {
  const char* name = "";
  const char* cells = "";  // of its row in docs/formats.md
  Range range = {};
  bool may_lack = false;          // the key may be left out
  bool may_be_null = false;       // it may be null
  bool only_said = false;         // written only where it says what is not so without it
  const char* expected = "";      // the complaint about any other value; none: the kind's own
  const char* refused = nullptr;  // the complaint about a value that says what is so without it
  const char* type = "";          // in the words of docs/formats.md
  const char* section = nullptr;  // of docs/formats.md, where the object's keys stand
};

// Whether there is a value to read. Throws InputError where there has to be.
[[nodiscard]] bool is_there(const Spec& key, JsonObject& object);
void put(const Spec& key, Json value, Json& object);

// A row of a table in docs/formats.md, its key by the whole path. `cells` are those behind the
// type, "unit | when | meaning", or the meaning of a key that has no unit and is always there.
struct Row {
  std::string key, type, cells;
};
using Rows = std::vector<Row>;
// Appends the row of a key within `within`, and returns its path. A key without a name has none.
std::string describe_key(const Spec& key, const std::string& within, Rows& rows);

// A heading of docs/formats.md, and the table below it.
struct Section {
  std::string title;
  Rows rows;
};

}  // namespace weir::format

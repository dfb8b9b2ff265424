// Puts constants back to what they are without a source's runs.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/left_out.hpp"

namespace weir {
namespace {

// "time.launch" of a file. What holds it is there, since certificates are of constants that are.
void put(Json& file, const std::string& path, const Json& value) {
  Json* holder = &file;
  std::size_t from = 0;
  for (auto dot = path.find('.'); dot != std::string::npos; dot = path.find('.', from)) {
    holder = &(*holder)[path.substr(from, dot - from)];
    from = dot + 1;
  }
  const std::string key = path.substr(from);
  if (value.is_null()) {
    holder->erase(key);
  } else {
    (*holder)[key] = value;
  }
}

}  // namespace

LeftOut read_left_out(JsonObject& certificate) {
  LeftOut values;
  if (!certificate.has("left_out")) return values;
  if (!certificate.has("chosen_seeing"))
    certificate.fail("left_out", "goes with chosen_seeing: what saw no run is what it is");
  JsonObject by_source = certificate.object("left_out");
  for (const std::string& source : by_source.unread()) values[source] = by_source.at(source);
  return values;
}

Json without_source(Json file, const std::string& source) {
  if (!file.contains("origins")) return file;
  const Json origins = file["origins"];
  for (const auto& [path, certificate] : origins.items()) {
    if (!certificate.contains("left_out") || !certificate["left_out"].contains(source)) continue;
    put(file, path, certificate["left_out"][source]);
    // The value is no longer one that these rows chose.
    file["origins"][path].erase("left_out");
    file["origins"][path].erase("chosen_seeing");
  }
  return file;
}

}  // namespace weir

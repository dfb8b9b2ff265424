// The digits are found by their key, and put back as the zeros that they were hashed as.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/seal.hpp"

#include <cassert>
#include <optional>
#include <span>

#include "plan/text/sha256.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kSealName = "sha256";
constexpr std::string_view kSealKey = "\"sha256\"";

// Where the digits of the last key of that name begin.
std::optional<std::size_t> seal_place(std::string_view text) {
  const std::size_t key = text.rfind(kSealKey);
  if (key == text.npos) return std::nullopt;
  const std::size_t quote = text.find('"', key + kSealKey.size());
  if (quote == text.npos || text.size() - quote <= kSealDigits) return std::nullopt;
  return quote + 1;
}

}  // namespace

std::string seal_of(std::string_view bytes, std::size_t at) {
  assert(at + kSealDigits <= bytes.size() && "the digits are among the bytes");
  const std::string zeros = open_seal();
  Sha256 digest;
  for (const std::string_view part :
       {bytes.substr(0, at), std::string_view(zeros), bytes.substr(at + kSealDigits)})
    digest.update(std::as_bytes(std::span(part)));
  return digest.hex();
}

std::string sealed(std::string text) {
  const std::size_t at = seal_place(text).value();
  text.replace(at, kSealDigits, seal_of(text, at));
  return text;
}

std::string sealed_text(Json object, int indent) {
  // Put behind all other keys, where seal_place() looks for it.
  object.erase("sha256");
  object["sha256"] = open_seal();
  return sealed(object.dump(indent) + "\n");
}

void require_seal_if_any(const std::string& text, const Json& holder, const std::string& file) {
  if (!holder.is_object() || !holder.contains(kSealName)) return;
  const std::optional<std::size_t> at = seal_place(text);
  if (at && text.substr(*at, kSealDigits) == seal_of(text, *at)) return;
  throw InputError(file, kSealName,
                   "the file is not as it was written: it is damaged, or somebody edited it, who "
                   "takes this key out");
}

void require_seal(const std::string& text, const std::string& file) {
  const std::optional<std::size_t> at = seal_place(text);
  if (!at) throw InputError(file, "sha256", "the file's seal is not there");
  if (text.substr(*at, kSealDigits) != seal_of(text, *at))
    throw InputError(file, "sha256", "the file is not as it was written");
}

}  // namespace weir

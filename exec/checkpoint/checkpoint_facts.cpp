// What a checkpoint says of itself, held against itself.
// SPDX-License-Identifier: Apache-2.0
#include "exec/checkpoint/checkpoint_facts.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "plan/text/seal.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kSealedSchema = "weir.checkpoint/2";
constexpr const char* kOpenSchema = "weir.checkpoint/1";
constexpr std::int64_t kMostSteps = std::int64_t{1} << 32;

// A pipe in its place would be waited for.
std::string read_regular(const std::filesystem::path& file) {
  std::error_code none;  // what cannot be looked at is told by who reads it
  const auto status = std::filesystem::status(file, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status))
    throw InputError(file.string(), "", "cannot be read: expected a file");
  return read_text_file(file);
}

void require_consistent_steps(const CheckpointFacts& facts, const std::filesystem::path& folder) {
  const std::string file = (folder / kCheckpointFacts).string();
  const auto named = step_in(folder.filename().string());
  if (named && *named != facts.step) {
    throw InputError(file, "step",
                     fmt::format("{}, its folder is {}", facts.step, folder.filename().string()));
  }
  const std::int64_t expected = facts.step * samples_a_step(facts.trained, file);
  if (facts.samples != expected) {
    throw InputError(file, "samples",
                     fmt::format("{}, but {} steps have {}", facts.samples, facts.step, expected));
  }
}

}  // namespace

std::int64_t samples_a_step(const Json& trained, const std::string& file) {
  JsonObject object(trained, file, "trained");
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (object.has("global_batch_size")) return object.integer("global_batch_size", 1, kMost);
  return object.integer("microbatches", 1, 1 << 22) * object.integer("dp", 1, 1 << 16) *
         object.integer("micro_batch_size", 1, 1 << 20);
}

CheckpointFacts read_checkpoint_facts(const std::filesystem::path& folder) {
  const std::string file = (folder / kCheckpointFacts).string();
  const std::string text = read_regular(file);
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  CheckpointFacts facts;
  // The first version had no seal. It is still read, and the user is told.
  if (top.has("schema") && top.at("schema") == kOpenSchema) {
    top.expect_schema(kOpenSchema);
  } else {
    top.expect_schema(kSealedSchema);
    require_seal(text, file);  // before anything else of it is believed
    static_cast<void>(top.text("sha256"));
    facts.state_sha256 = top.text("state_sha256");
  }
  facts.step = top.integer("step", 0, kMostSteps);
  facts.samples = top.integer("samples", 0, std::int64_t{1} << 62);
  facts.trained = top.at("trained");
  if (!facts.trained.is_object()) top.fail("trained", "expected an object");
  top.finish();
  // The number in the folder's name and the one within must agree.
  require_consistent_steps(facts, folder);
  return facts;
}

std::string checkpoint_facts_text(const CheckpointFacts& facts) {
  return sealed_text({{"schema", kSealedSchema},
                      {"step", facts.step},
                      {"samples", facts.samples},
                      {"trained", facts.trained},
                      {"state_sha256", facts.state_sha256.value()}},
                     2);
}

std::optional<std::int64_t> step_in(const std::string& folder_name) {
  if (!folder_name.starts_with(kStepFolder)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = folder_name.data() + folder_name.size();
  const auto read = std::from_chars(folder_name.data() + kStepFolder.size(), end, step);
  return read.ec == std::errc() && read.ptr == end ? std::optional(step) : std::nullopt;
}

}  // namespace weir

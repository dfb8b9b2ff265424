// Llama's blocks in sizes that no flavour of torchtitan's llama3 has, as a flavour of its own that
// the exported files register.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/model/decoder.hpp"
#include "tools/jobs/trainers/row.hpp"

namespace weir {

inline constexpr const char* kOwnFlavor = "weir";

// Whether the version's llama3 can be built in these sizes: rotary positions as they are or scaled
// as Llama 3.1's, RMS norms of one epsilon, one gated MLP, no biases, heads that divide the width;
// an untied head, or in main a tied one.
[[nodiscard]] bool has_llamas_blocks(const Decoder& decoder, Trainer version);

// Functions of the registry's own file, and of a module that job.toml imports.
[[nodiscard]] std::string registry_flavor(const Decoder& decoder);
[[nodiscard]] std::string toml_flavor(const Decoder& decoder);

}  // namespace weir

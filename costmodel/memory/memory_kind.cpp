// Names of what memory is held for.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory_kind.hpp"

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<MemoryKind, kMemoryKinds.size()> kNames{{
    {MemoryKind::weights, "weights"},
    {MemoryKind::gradients, "gradients"},
    {MemoryKind::optimizer_state, "optimizer_state"},
    {MemoryKind::activations, "activations"},
    {MemoryKind::rematerialised, "rematerialised"},
    {MemoryKind::workspace, "workspace"},
    {MemoryKind::receive_slots, "receive_slots"},
    {MemoryKind::overhead, "overhead"},
}};

}  // namespace

std::string_view to_string(MemoryKind kind) { return name_of(kNames, kind); }

}  // namespace weir

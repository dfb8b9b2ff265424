// Names of what memory is held for.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory_kind.hpp"

namespace weir {

std::string_view to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::weights:
      return "weights";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer_state:
      return "optimizer_state";
    case MemoryKind::activations:
      return "activations";
    case MemoryKind::rematerialised:
      return "rematerialised";
    case MemoryKind::workspace:
      return "workspace";
    case MemoryKind::receive_slots:
      return "receive_slots";
    case MemoryKind::overhead:
      return "overhead";
  }
  return "";
}

}  // namespace weir

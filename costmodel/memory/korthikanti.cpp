// Korthikanti et al.'s formulas of activation memory (docs/theory.md 7.3).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/korthikanti.hpp"

#include <algorithm>
#include <cassert>

namespace weir {
namespace {

std::int64_t sbh(const KorthikantiBlock& x) { return x.s * x.b * x.h; }
std::int64_t scores(const KorthikantiBlock& x) {
  return 5 * x.a * x.s * x.s * x.b;
}  // 5 a s / h of s b h

}  // namespace

Bytes korthikanti_whole(const KorthikantiBlock& x) { return Bytes(34 * sbh(x) + scores(x)); }

Bytes korthikanti_tensor(const KorthikantiBlock& x) {
  return Bytes(10 * sbh(x) + ceil_div(24 * sbh(x) + scores(x), x.t));
}

Bytes korthikanti_sequence(const KorthikantiBlock& x) {
  return Bytes(ceil_div(34 * sbh(x) + scores(x), x.t));
}

Bytes korthikanti_tensor_selective(const KorthikantiBlock& x) {
  return Bytes(10 * sbh(x) + ceil_div(24 * sbh(x), x.t));
}

Bytes korthikanti_sequence_selective(const KorthikantiBlock& x) {
  return Bytes(ceil_div(34 * sbh(x), x.t));
}

Bytes korthikanti_full(const KorthikantiBlock& x) { return Bytes(2 * sbh(x)); }

Bytes korthikanti_embedding(const KorthikantiBlock& x) { return Bytes(ceil_div(sbh(x), x.t)); }

Bytes korthikanti_head(const KorthikantiBlock& x, std::int64_t vocabulary) {
  return Bytes(ceil_div(4 * x.s * x.b * (x.h + vocabulary), x.t));
}

std::vector<Bytes> peak_held(const Schedule& schedule, std::span<const Bytes> stage_bytes) {
  assert(stage_bytes.size() == static_cast<std::size_t>(schedule.shape.total_stages()));
  std::vector<Bytes> peaks;
  for (const auto& order : schedule.order) {
    Bytes held{0}, peak{0};
    for (const Action& action : order) {
      const Bytes bytes = stage_bytes[static_cast<std::size_t>(action.stage.value)];
      // The peak is just after a forward: a backward only gives back.
      if (action.kind == ActionKind::F) peak = std::max(peak, held += bytes);
      if (action.kind == ActionKind::B || action.kind == ActionKind::W) held -= bytes;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace weir

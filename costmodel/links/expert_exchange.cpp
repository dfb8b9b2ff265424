// Copies of tokens between the devices that share experts (docs/theory.md 6.3).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/expert_exchange.hpp"

#include <algorithm>

namespace weir {
namespace {

// C(all - own, drawn) / C(all, drawn): none of `drawn` out of `all` is one of `own`.
double missed(double all, double own, double drawn) {
  double none = 1;
  for (int i = 0; i < drawn; ++i) none *= std::max(0.0, all - own - i) / (all - i);
  return none;
}

double binomial(double n, double k) {
  double value = 1;
  for (int i = 0; i < k; ++i) value *= (n - i) / (i + 1);
  return k > n ? 0 : value;
}

// A place has `mine` of the groups whole: j of the drawn groups are among them, by chance.
double missed_groups(const TransformerShape& block, double mine) {
  const auto groups = static_cast<double>(block.expert_groups),
             drawn = static_cast<double>(block.groups_per_token);
  const double each = static_cast<double>(block.experts) / groups;
  double none = 0;
  for (int j = 0; j <= std::min(mine, drawn); ++j) {
    const double chance =
        binomial(mine, j) * binomial(groups - mine, drawn - j) / binomial(groups, drawn);
    none += chance * missed(drawn * each, j * each, static_cast<double>(block.experts_per_token));
  }
  return none;
}

}  // namespace

double places_visited(const TransformerShape& block, int places) {
  const auto all = static_cast<double>(block.experts), n = static_cast<double>(places),
             drawn = static_cast<double>(block.experts_per_token);
  const std::int64_t groups = block.expert_groups;
  // Drawn without replacement: the chance that none of a token's experts is in a given place.
  double none = missed(all, all / n, drawn);
  // A place holds whole groups.
  if (groups > 1 && groups % places == 0) {
    const std::int64_t whole = groups / places;
    none = missed_groups(block, static_cast<double>(whole));
  } else if (groups > 1 && places % groups == 0) {
    // Several places share a group: it must be chosen first.
    const double chosen = static_cast<double>(block.groups_per_token) / static_cast<double>(groups);
    none = 1 - chosen + chosen * missed(all * chosen, all / n, drawn);
  }
  return n * (1 - none);
}

Seconds exchange_sent_once(Bytes n, int p, const TokenSpread& spread, const Link& link) {
  const auto part = [&](double peers, double share, Seconds latency, BytesPerSecond rate) {
    return latency * peers + (share > 0 ? n / rate * share : Seconds(0));
  };
  const auto others = [](double members) { return (members - 1) / members; };
  const double devices = spread.devices / spread.copies, nodes = spread.nodes / spread.copies;
  if (!link.node) return part(p - 1.0, others(p) * devices, link.latency, link.bandwidth);
  const NodeLevel& node = *link.node;
  const double inside = node.members, count = p / inside;
  // Both levels work at once: the slower one is what is seen.
  return std::max(
      part(inside - 1, others(inside) * devices, node.latency, node.bandwidth),
      part(count - 1, others(count) * nodes, node.across_latency, node.across_bandwidth));
}

}  // namespace weir

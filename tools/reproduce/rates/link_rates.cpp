// `weir reproduce link-rates`: collectives and messages by size and node count in the alpha-beta
// model, with two constants for rings within a node, two for rings across, one for trees across,
// two for sums in the switch and one for messages that are not large.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/rates/link_rates.hpp"

#include <fmt/format.h>

#include "costmodel/links/collectives.hpp"
#include "costmodel/links/parallel.hpp"
#include "plan/words/names.hpp"
#include "tools/reproduce/rates/rate_rows.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

constexpr int kNode = 8;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr Bytes kSmall(128 * kMiB);  // up to here messages keep to fewer channels

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, send_receive };
constexpr Names<Collective, 4> kCollectives{{{Collective::all_reduce, "all-reduce"},
                                             {Collective::all_gather, "all-gather"},
                                             {Collective::reduce_scatter, "reduce-scatter"},
                                             {Collective::send_receive, "send-receive"}}};

struct LinkRow {
  std::string cluster;
  Collective collective;
  int nodes, per_node;
  Bytes bytes;
  Printed busbw;
  double seconds;
  std::string group;  // collective, nodes and devices of each
  [[nodiscard]] int members() const { return nodes * per_node; }
};

// nccl-tests' PERFORMANCE.md: busbw is bytes over time, times 2 (p - 1) / p for an all-reduce and
// (p - 1) / p for an all-gather or a reduce-scatter.
double bus_share(Collective collective, int p) {
  switch (collective) {
    case Collective::all_reduce:
      return 2.0 * (p - 1) / p;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (p - 1.0) / p;
    case Collective::send_receive:
      return 1;
  }
  return 1;
}

std::vector<LinkRow> link_rows(const Publications& published) {
  std::vector<LinkRow> rows;
  for (const PublishedRow& row : published.table("rates_collectives.csv")) {
    const auto collective = named(kCollectives, row.text("collective"));
    if (!collective) row.fail("collective", "expected a collective of nccl-tests");
    const int nodes = row.integer("nodes"), per_node = row.integer("per_node");
    const double bytes = row.number("bytes");
    const Printed busbw = row.printed("busbw_GBps");
    rows.push_back({row.text("cluster"), *collective, nodes, per_node,
                    Bytes(static_cast<std::int64_t>(bytes)), busbw,
                    bytes * bus_share(*collective, nodes * per_node) / (busbw.value * 1e9),
                    fmt::format("{} {} x {}", row.text("collective"), nodes, per_node)});
  }
  return rows;
}

double time_of(const LinkRow& row, const Cluster& cluster) {
  const int p = row.members();
  // How many of a node's devices take part decides what a ring shares.
  const Link link = group_link(cluster, p, kNode / row.per_node);
  switch (row.collective) {
    case Collective::all_reduce:
      return all_reduce(row.bytes, p, link).count();
    case Collective::all_gather:
      return ring_all_gather(row.bytes, p, link).count();
    case Collective::reduce_scatter:
      return ring_reduce_scatter(row.bytes, p, link).count();
    case Collective::send_receive: {
      // A message is one pair's: no ring, no tree, no switch.
      const Link& wire = row.nodes > 1 ? cluster.inter : cluster.intra;
      const LinkRegime regime = wire.at(row.bytes);
      return (regime.latency + row.bytes / regime.bandwidth).count();
    }
  }
  return 0;
}

// All-reduces of several members in each of several nodes, for which NCCL takes trees at some
// sizes.
bool may_take_trees(const LinkRow& row) {
  return row.collective == Collective::all_reduce && row.nodes > 1 && row.per_node > 1;
}
bool ring(const LinkRow& row) {
  return row.collective != Collective::send_receive && !may_take_trees(row) &&
         !(row.collective == Collective::all_reduce && row.members() == kNode);
}

// Datasheet of DGX H100: NVLink 450 GB/s a direction, a card of 400 Gb/s for each device.
Cluster wires() {
  Cluster cluster;
  cluster.devices_per_node = kNode;
  cluster.nodes = 64;
  cluster.intra.bandwidth = BytesPerSecond(450e9);
  cluster.inter.bandwidth = BytesPerSecond(50e9);
  return cluster;
}

void scale(Link& link, double latency_us, double efficiency) {
  link.latency = Seconds(latency_us * 1e-6);
  link.bandwidth = BytesPerSecond(link.bandwidth.count() * efficiency);
  link.efficiency = efficiency;
}

// One step of the fit: which rows it sees, and what its constants make of the links before it.
struct LinkFitStep {
  std::string what;
  std::function<bool(const LinkRow&)> sees;
  std::function<void(Cluster&, std::span<const double>)> apply;
  std::vector<double> start;
};

LinkFitStep rings_in_a_node() {
  return {"rings within a node: latency in us, share of 450 GB/s",
          [](const LinkRow& row) { return row.nodes == 1 && ring(row); },
          [](Cluster& cluster, std::span<const double> x) { scale(cluster.intra, x[0], x[1]); },
          {8, 0.8}};
}
LinkFitStep sums_in_the_switch() {
  return {"all-reduces of 8 in the switch: latency in us, GB/s",
          [](const LinkRow& row) {
            return row.nodes == 1 && row.members() == kNode &&
                   row.collective == Collective::all_reduce;
          },
          [](Cluster& cluster, std::span<const double> x) {
            cluster.intra.switch_reduction =
                SwitchReduction{5, Seconds(x[0] * 1e-6), BytesPerSecond(x[1] * 1e9)};
          },
          {50, 450}};
}
LinkFitStep messages_in_a_node() {
  return {"messages of up to 128 MiB within a node: GB/s",
          [](const LinkRow& row) {
            return row.nodes == 1 && row.collective == Collective::send_receive &&
                   row.bytes <= kSmall;
          },
          [](Cluster& cluster, std::span<const double> x) {
            cluster.intra.regimes = {{kSmall, cluster.intra.latency, BytesPerSecond(x[0] * 1e9)}};
          },
          {150}};
}
LinkFitStep rings_across() {
  return {"rings across nodes: latency in us, share of 50 GB/s",
          [](const LinkRow& row) { return row.nodes > 1 && ring(row); },
          [](Cluster& cluster, std::span<const double> x) { scale(cluster.inter, x[0], x[1]); },
          {15, 0.9}};
}

LinkFitStep trees_across() {
  return {"trees over nodes: a level's latency in us",
          may_take_trees,
          [](Cluster& cluster, std::span<const double> x) {
            cluster.inter.tree = Seconds(x[0] * 1e-6);
          },
          {50}};
}

struct FittedStep {
  std::vector<double> constants;
  std::vector<const LinkRow*> rows;
  RateFit<LinkRow> fit;
};

FittedStep fit_step(const LinkFitStep& step, const std::vector<LinkRow>& all,
                    std::string_view cluster_name, const Cluster& before) {
  FittedStep done;
  for (const LinkRow& row : all) {
    if (row.cluster == cluster_name && step.sees(row)) done.rows.push_back(&row);
  }
  done.fit = {[before, apply = step.apply](const LinkRow& row, std::span<const double> x) {
                Cluster cluster = before;
                apply(cluster, x);
                return time_of(row, cluster);
              },
              step.start};
  done.constants = done.fit.constants(done.rows);
  return done;
}

std::string text(const LinkRow& row) {
  return fmt::format("{}, {} x {}, {} MiB", row.cluster, row.nodes, row.per_node,
                     row.bytes.count() / kMiB);
}

ReproducedNumber number(const LinkRow& row, double time) {
  return {text(row), std::string(name_of(kCollectives, row.collective)) + ", busbw, GB/s",
          row.busbw,
          static_cast<double>(row.bytes.count()) * bus_share(row.collective, row.members()) / time /
              1e9};
}

// Rows with constants that did not see their group, and a note of the constants that saw all.
void add_step(const LinkFitStep& step, std::string_view cluster, const FittedStep& done,
              CaseResult& result) {
  const std::vector<double> times = left_out_times(done.fit, done.rows);
  RateErrors errors;
  for (std::size_t i = 0; i < done.rows.size(); ++i) {
    errors.add(times[i] / done.rows[i]->seconds - 1);
    result.add(Role::predicted, number(*done.rows[i], times[i]));
  }
  result.notes.push_back(
      fmt::format("{}, {}: {:.4g}; {} rows, each group (collective, nodes, devices a node) left "
                  "out of the fit in turn: mean |error| of the time {:.1f} %, worst {:.1f} %.",
                  cluster, step.what, fmt::join(done.constants, ", "), errors.rows,
                  errors.mean() * 100, errors.worst * 100));
}

// The steps one after the other, each on what those before it made. `result` may be null.
FittedLinks fit_links(const Publications& published, CaseResult* result) {
  const std::vector<LinkRow> rows = link_rows(published);
  FittedLinks links{wires()};
  const auto run = [&](const LinkFitStep& step) {
    const FittedStep done = fit_step(step, rows, "h100-ib", links.cluster);
    if (result != nullptr) add_step(step, "h100-ib", done, *result);
    step.apply(links.cluster, done.constants);
    return static_cast<int>(done.rows.size());
  };
  links.ring_rows = run(rings_in_a_node());
  links.switch_rows = run(sums_in_the_switch());
  links.message_rows = run(messages_in_a_node());
  links.network_rows = run(rings_across());
  links.tree_rows = run(trees_across());
  return links;
}

FittedLinks fit_playbook(const Publications& published, const FittedLinks& node,
                         CaseResult* result) {
  FittedLinks links = node;
  links.cluster.inter = wires().inter;
  const std::vector<LinkRow> rows = link_rows(published);
  const auto run = [&](const LinkFitStep& step) {
    const FittedStep done = fit_step(step, rows, "playbook", links.cluster);
    if (result != nullptr) add_step(step, "playbook", done, *result);
    step.apply(links.cluster, done.constants);
    return static_cast<int>(done.rows.size());
  };
  links.network_rows = run(rings_across());
  links.tree_rows = run(trees_across());
  return links;
}

// What no step saw: large messages within a node and the playbook's single node are forecast by
// constants of other rows; messages across nodes are listed.
void add_rest(const Publications& published, const FittedLinks& fitted, CaseResult& result) {
  RateErrors large, playbook;
  for (const LinkRow& row : link_rows(published)) {
    const double time = time_of(row, fitted.cluster);
    const double error = time / row.seconds - 1;
    if (row.collective == Collective::send_receive && row.nodes > 1) {
      result.add_anomaly(number(row, time),
                         "a pair's share of this network differs from 13 to 46 GB/s between its "
                         "measurements, where rings reach 49: the fabric's state, not the card's");
    } else if (row.collective == Collective::send_receive && row.bytes > kSmall) {
      large.add(error);
      result.add(Role::predicted, number(row, time));
    } else if (row.cluster == "playbook" && row.nodes == 1) {
      playbook.add(error);
      result.add(Role::predicted, number(row, time));
    }
  }
  result.notes.push_back(fmt::format(
      "Large messages within a node by the rings' constants: {} rows, mean |error| {:.1f} %, worst "
      "{:.1f} %; the playbook's node by those of h100-ib: {} rows, {:.1f} and {:.1f} %.",
      large.rows, large.mean() * 100, large.worst * 100, playbook.rows, playbook.mean() * 100,
      playbook.worst * 100));
}

}  // namespace

FittedLinks fit_h100_links(const Publications& published) { return fit_links(published, nullptr); }

FittedLinks fit_playbook_links(const Publications& published) {
  return fit_playbook(published, fit_h100_links(published), nullptr);
}

CaseResult reproduce_link_rates(const Publications& published) {
  CaseResult result;
  const FittedLinks node = fit_links(published, &result);
  static_cast<void>(fit_playbook(published, node, &result));
  add_rest(published, node, result);
  return result;
}

}  // namespace weir

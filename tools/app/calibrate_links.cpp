// Links fitted to the output of nccl-tests, and nodes as nvidia-smi draws them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "costmodel/links/link_fit.hpp"
#include "costmodel/links/nccl_tests.hpp"
#include "costmodel/table/costs.hpp"
#include "plan/import/gpu_topology.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine.hpp"

namespace weir::app {
namespace {

// Which test tells most of one link. sendrecv is a pipeline's own message; the others move the same
// bytes over a link, but their latency is that of many steps, and all_reduce may be computed in the
// switch.
constexpr std::array<std::string_view, 6> kPreference{"sendrecv",       "all_gather", "broadcast",
                                                      "reduce_scatter", "alltoall",   "all_reduce"};

// Between nodes a collective of several devices a node shares its bytes over their adapters: no
// single link's rate.
bool tells_a_link(const NcclTest& test) {
  return test.collective == "sendrecv" || test.nodes == 1 || test.nodes == test.ranks;
}

std::vector<FittedTest> fitted_tests(const LinkRequest& request) {
  std::vector<FittedTest> all;
  for (const auto& file : request.nccl) {
    for (NcclTest& test : read_nccl_tests(read_text_file(file), file.string())) {
      auto fit = fit_link(test.samples, test.bus_factor);
      if (!fit)
        throw InputError(file.string(), test.collective, "expected at least two sizes of messages");
      all.push_back({file.filename().string(), std::move(test), std::move(*fit)});
    }
  }
  return all;
}

const FittedTest* best_for(const std::vector<FittedTest>& tests, bool between_nodes) {
  for (const std::string_view collective : kPreference) {
    for (const FittedTest& t : tests) {
      if (t.test.collective == collective && (t.test.nodes > 1) == between_nodes &&
          tells_a_link(t.test))
        return &t;
    }
  }
  return nullptr;
}

// The link as measured. A message's own test tells all of it, a collective only the rate of large
// messages.
Link measured_link(const FittedTest& t, const Link& before, std::vector<std::string>& origin,
                   const char* name) {
  const FittedRange& last = t.fit.ranges.back();
  if (last.bandwidth.count() <= 0) {
    throw InputError(t.file, t.test.collective,
                     "its times do not grow with the size: no bandwidth can be told");
  }
  std::string kept;
  Link link = before;
  if (t.test.collective == "sendrecv") {
    link = to_link(t.fit, before.regimes.empty() ? before.latency : before.regimes.front().latency);
    if (!t.fit.latency_known) {
      kept = fmt::format("; below {} from the latency it had",
                         format_bytes(t.fit.ranges.front().smallest));
    }
  } else {
    link.regimes.clear();
    link.bandwidth = last.bandwidth;
    link.efficiency = 1;  // what was measured is no share of a datasheet's rate
    kept = "; the rate of large messages only, its latency stays as it was";
  }
  origin.push_back(fmt::format(
      "{}: nccl-tests {} of {} x {} on {} node{}, {} samples up to {}, median residual {:.1f} % "
      "({}){}",
      name, t.test.collective, t.test.ranks, t.test.device, t.test.nodes,
      t.test.nodes == 1 ? "" : "s", t.test.samples.size(), format_bytes(t.test.samples.back().size),
      100 * last.median_residual, t.file, kept));
  return link;
}

Json fits_json(const std::vector<FittedTest>& tests) {
  Json all = Json::array();
  for (const FittedTest& t : tests) {
    Json ranges = Json::array();
    for (const FittedRange& range : t.fit.ranges) {
      ranges.push_back({{"smallest_bytes", range.smallest.count()},
                        {"largest_bytes", range.largest.count()},
                        {"latency_s", range.latency.count()},
                        {"bandwidth_bytes_per_s", range.bandwidth.count()},
                        {"samples", range.samples},
                        {"median_residual", range.median_residual}});
    }
    all.push_back({{"file", t.file},
                   {"test", t.test.collective},
                   {"ranks", t.test.ranks},
                   {"nodes", t.test.nodes},
                   {"latency_known", t.fit.latency_known},
                   {"ranges", ranges}});
  }
  return all;
}

// "H100-SXM5-80GB" and "NVIDIA H100 80GB HBM3" are one kind; where the model number differs someone
// took the wrong file.
void warn_of_another_device(const Cluster& cluster, const FittedTest& t, const Session& session) {
  const std::string model = cluster.device.name.substr(0, cluster.device.name.find_first_of("- "));
  if (t.test.device.empty() || t.test.device.find(model) != std::string::npos) return;
  session.note(fmt::format("{}: measured on {}, the cluster has {}", t.file, t.test.device,
                           cluster.device.name));
}

// Lines from `first` on say what was measured: so do the entries of the constants they name.
void take_over_origins(Cluster& cluster, std::size_t first) {
  for (std::size_t i = first; i < cluster.origin.size(); ++i) {
    const std::string& line = cluster.origin[i];
    for (const std::string path : {"intra.bandwidth", "intra", "inter"}) {
      if (line.starts_with(path + ":"))
        replace_origin(cluster.origins, path, line.substr(path.size() + 2));
    }
  }
}

std::vector<std::string> refine_cluster(const LinkRequest& request,
                                        const std::vector<FittedTest>& tests,
                                        const Session& session) {
  Cluster cluster = load_cluster_or_name(*request.cluster);
  const std::size_t before = cluster.origin.size();
  if (request.topology) {
    const std::string file = request.topology->filename().string();
    cluster.origin.push_back(
        apply_topology(read_gpu_topology(read_text_file(*request.topology), file), file, cluster));
  }
  if (const FittedTest* t = best_for(tests, false)) {
    warn_of_another_device(cluster, *t, session);
    cluster.intra = measured_link(*t, cluster.intra, cluster.origin, "intra");
  }
  if (const FittedTest* t = best_for(tests, true)) {
    warn_of_another_device(cluster, *t, session);
    cluster.inter = measured_link(*t, cluster.inter, cluster.origin, "inter");
  }
  if (cluster.origin.size() == before) {
    throw InputError(request.nccl.front().string(), "", "no test of it tells a single link's rate");
  }
  if (!cluster.origins.empty()) take_over_origins(cluster, before);
  if (request.output)
    write_file_atomically(session.output(*request.output), weir::to_json(cluster));
  return {cluster.origin.begin() + static_cast<std::ptrdiff_t>(before), cluster.origin.end()};
}

std::vector<std::string> refine_costs(const LinkRequest& request,
                                      const std::vector<FittedTest>& tests,
                                      const Session& session) {
  Costs costs = load_costs(*request.costs);
  const FittedTest* t = best_for(tests, false);
  if (t == nullptr) t = best_for(tests, true);
  if (t == nullptr)
    throw InputError(request.nccl.front().string(), "", "no test of it tells a single link's rate");
  std::vector<std::string> origin;
  costs.link = measured_link(*t, costs.link, origin, "link");
  costs.origin += (costs.origin.empty() ? "" : "; ") + origin.front();
  if (request.output) save_costs(costs, session.output(*request.output));
  return origin;
}

}  // namespace

LinkResult calibrate_links(const LinkRequest& request, const Session& session) {
  if (request.cluster.has_value() == request.costs.has_value()) {
    throw UsageError("--nccl and --topo refine either a cluster (--cluster) or costs (--costs)");
  }
  if (request.costs && request.topology)
    throw UsageError("--topo refines a cluster: give --cluster");
  LinkResult result{.tests = fitted_tests(request), .output = request.output};
  result.taken = request.cluster ? refine_cluster(request, result.tests, session)
                                 : refine_costs(request, result.tests, session);
  return result;
}

Json to_json(const LinkResult& result) {
  Json json{{"schema", "weir.links/1"},
            {"output", nullptr},
            {"tests", fits_json(result.tests)},
            {"taken", result.taken}};
  if (result.output) json["output"] = result.output->string();
  return json;
}

}  // namespace weir::app

// Links fitted to the output of nccl-tests, and nodes as nvidia-smi draws them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/calibrate_links.hpp"

#include <fmt/format.h>

#include "costmodel/links/gpu_topology.hpp"
#include "costmodel/links/nccl_tests.hpp"
#include "costmodel/table/costs.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/machine.hpp"

namespace weir::app {
namespace {

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
  if (may_be(t.test.device, cluster.device)) return;
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

[[noreturn]] void refuse_untold(const LinkRequest& request) {
  throw InputError(request.nccl.front().string(), "", "no test of it tells a link's rate");
}

std::vector<std::string> refine_cluster(const LinkRequest& request,
                                        const std::vector<FittedTest>& tests,
                                        const Session& session) {
  Cluster cluster = load_cluster_or_name(*request.cluster);
  // Lines added below this are what was learnt now.
  const std::size_t before = cluster.origin.size();
  if (request.topology) {
    const std::string file = request.topology->filename().string();
    cluster.origin.push_back(
        apply_topology(read_gpu_topology(read_text_file(*request.topology), file), file, cluster));
  }
  // The topology first: how many devices a node has decides which tests are within one.
  const auto refine = [&](Link& link, const char* name, bool between_nodes) {
    const auto told = measured_link(tests, {.between_nodes = between_nodes,
                                            .devices_per_node = cluster.devices_per_node,
                                            .within = cluster.intra.latency,
                                            .before = link});
    if (!told) return;
    warn_of_another_device(cluster, *told->largest, session);
    link = told->link;
    cluster.origin.push_back(fmt::format("{}: {}", name, told->origin));
  };
  // Within nodes first: a ring across nodes is read with that latency known.
  refine(cluster.intra, "intra", false);
  refine(cluster.inter, "inter", true);
  // Input that taught nothing is an error: the user meant it to.
  if (cluster.origin.size() == before) refuse_untold(request);
  if (!cluster.origins.empty()) take_over_origins(cluster, before);
  if (request.output)
    write_file_atomically(session.output(*request.output), weir::to_json(cluster));
  return {cluster.origin.begin() + static_cast<std::ptrdiff_t>(before), cluster.origin.end()};
}

std::vector<std::string> refine_costs(const LinkRequest& request,
                                      const std::vector<FittedTest>& tests,
                                      const Session& session) {
  Costs costs = load_costs(*request.costs);
  auto told = measured_link(tests, {.before = costs.link});
  if (!told) told = measured_link(tests, {.between_nodes = true, .before = costs.link});
  if (!told) refuse_untold(request);
  std::vector<std::string> origin{"link: " + told->origin};
  costs.link = told->link;
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
  if (request.cluster && load_cluster_or_name(*request.cluster).kinds() > 1) {
    throw InputError(request.cluster->string(), "pools",
                     "expected nodes of one kind: links are fitted in each pool's own file");
  }
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

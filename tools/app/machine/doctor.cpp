// What this build and this machine have between them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/doctor.hpp"

#ifndef WEIR_HAS_CUDA_BACKEND
#include <dlfcn.h>
#endif
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exec/device/cores.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/reproduce/published.hpp"
#ifdef WEIR_HAS_CUDA_BACKEND
#include "exec/cuda/device_info.hpp"
#endif
#ifdef WEIR_HAS_MPI
#include "exec/processes/mpi/mpi_facts.hpp"
#endif
#ifdef WEIR_HAS_NCCL
#include "exec/nccl/nccl_facts.hpp"
#endif

namespace weir::app {
namespace {

#ifndef WEIR_HAS_CUDA_BACKEND
// The driver is looked up, never linked: a machine without one must be able to ask.
Finding gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {"GPUs", false, "no NVIDIA driver (libcuda.so.1) on this machine"};
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  const auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  const bool works =
      init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
  return {"GPUs", works,
          works ? fmt::format("{} found", devices) : "the driver is there but finds no device"};
}
#endif

std::vector<Finding> findings() {
  std::vector<Finding> all;
#ifdef WEIR_HAS_CPU_BACKEND
  all.push_back({"cpu backend", true,
                 fmt::format("oneDNN, fp32, K up to {} (one core a device)", available_cores())});
#else
  all.push_back({"cpu backend", false, "this build leaves the executor out (WEIR_EXECUTOR=OFF)"});
#endif
  all.push_back({"synthetic backend", true, "timed waits, no training; any K"});
#ifdef WEIR_HAS_CUDA_BACKEND
  const CudaFacts cuda = cuda_facts();
  all.push_back({"cuda backend", cuda.device.has_value(), cuda.why});
  for (const CudaFact& fact : cuda_capabilities()) all.push_back({fact.what, fact.works, fact.why});
#else
  all.push_back({"cuda backend", false, "not in this build"});
  all.push_back(gpus());
#endif
#ifdef WEIR_HAS_MPI
  const MpiFacts mpi = mpi_facts();
  all.push_back({"processes (MPI)", true, fmt::format("{}: {}", mpi.version, mpi.start)});
#else
  all.push_back({"processes (MPI)", false,
                 "not in this build: install an MPI with its headers (Debian: libopenmpi-dev and "
                 "openmpi-bin; Fedora: openmpi-devel; or a cluster's module), then configure and "
                 "build again"});
#endif
#ifdef WEIR_HAS_NCCL
  const NcclFacts nccl = nccl_facts();
  // NCCL without a GPU is there, but nothing can use it.
  all.push_back({"NCCL", nccl.present && cuda.device,
                 nccl.why + (!nccl.present ? ": --transport mpi moves messages, too"
                             : cuda.device ? ": weir run --transport nccl, a GPU each process"
                                           : ": nothing to send between without a device")});
#else
  all.push_back({"NCCL", false, "not in this build, which needs the CUDA backend and NCCL for it"});
#endif
  return all;
}

// As people write it: texts bare, all else as JSON.
std::string shown(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Of each machine and stack that is compiled in, by file name and the file's order.
std::vector<KnownConstant> known_constants() {
  std::vector<KnownConstant> all;
  for (const auto& [name, text] : compiled_tables()) {
    if (!name.ends_with(".json")) continue;
    const Json file = parse_json(text, name);
    JsonObject top(file, name, "");
    if (!top.has("origins")) continue;  // says it in lines, or holds no constants
    const Origins origins = read_origins(top.object("origins"));
    for (const Constant& constant : constants_of(file, origins)) {
      all.push_back({name.substr(0, name.rfind('.')), constant.path, shown(constant.value),
                     constant.origin != nullptr ? *constant.origin : Origin{}});
    }
  }
  return all;
}

}  // namespace

Fields fields(DoctorRequest& request) {
  return {{"--constants", &request.constants,
           "constants of the built-in clusters and stacks, each with its origin"}};
}

DoctorResult doctor(const DoctorRequest& request, const Session&) {
  DoctorResult result{machine_name(), findings(), {}};
  if (request.constants) result.constants = known_constants();
  return result;
}

nlohmann::ordered_json to_json(const DoctorResult& result) {
  nlohmann::ordered_json json{
      {"schema", "weir.doctor/1"}, {"machine", result.machine}, {"version", WEIR_VERSION}};
  for (const Finding& f : result.findings)
    json["findings"].push_back({{"what", f.what}, {"works", f.works}, {"why", f.why}});
  for (const KnownConstant& c : result.constants) {
    nlohmann::ordered_json entry{
        {"file", c.file}, {"key", c.key}, {"value", c.value}, {"source", c.origin.source}};
    if (c.origin.rows) entry["rows"] = *c.origin.rows;
    if (!c.origin.chosen_seeing.empty()) entry["chosen_seeing"] = c.origin.chosen_seeing;
    json["constants"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace weir::app

// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/host.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "costmodel/table/device_kind.hpp"
#include "exec/device/cores.hpp"
#include "exec/run/run.hpp"
#include "plan/words/error.hpp"
#ifdef WEIR_HAS_CPU_BACKEND
#include "exec/cpu/cpu_backend.hpp"
#endif
#ifdef WEIR_HAS_CUDA_BACKEND
#include "exec/cuda/cuda_backend.hpp"
#include "exec/cuda/device_info.hpp"
#endif

namespace weir {
namespace {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string name = "unknown CPU";
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  }
  return fmt::format("{}, {} cores", name, available_cores());
}

// What the cuda backend finds, in this build or not.
#ifdef WEIR_HAS_CUDA_BACKEND
CudaFacts require_gpu() {
  CudaFacts facts = cuda_facts();
  if (!facts.device) throw MissingComponent(fmt::format("backend cuda: {}", facts.why));
  return facts;
}

Cluster gpu_cluster(int devices) {
  const CudaFacts facts = require_gpu();
  const int sharing = (devices + facts.devices - 1) / facts.devices;  // ranks on one GPU
  Cluster cluster;
  cluster.name = "this machine";
  cluster.devices_per_node = devices;
  cluster.device.name = facts.device->name;
  // Ranks that share a GPU share its memory and its multiprocessors.
  cluster.device.memory = Bytes(facts.device->memory.count() / sharing);
  cluster.device.multiprocessors = facts.device->multiprocessors / sharing;
  cluster.intra = {Seconds(1e-6), BytesPerSecond(0)};  // messages are handed over
  cluster.inter = cluster.intra;
  cluster.origin = {
      "memory and multiprocessors as the driver says; weir profile measures the rest"};
  return cluster;
}

std::string gpu_name() {
  const CudaFacts facts = require_gpu();
  return fmt::format("{}, CUDA {}", facts.device->name, facts.toolkit);
}
#else
[[noreturn]] void refuse_gpu() { throw MissingComponent("this build has no cuda backend"); }
Cluster gpu_cluster(int) { refuse_gpu(); }
std::string gpu_name() { refuse_gpu(); }
#endif

}  // namespace

std::string machine_name(BackendKind backend) {
  if (backend == BackendKind::cuda) return fmt::format("{}, in {}", gpu_name(), processor_name());
  return processor_name();
}

int default_devices(BackendKind backend) {
  return backend == BackendKind::cuda ? 2 : available_cores();
}

Bytes host_memory() {
  return Bytes(std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE));
}

Cluster host_cluster() {
  Cluster cluster;
  cluster.name = "this machine";
  cluster.devices_per_node = available_cores();
  cluster.device.name = kCpuCore;
  cluster.device.memory = Bytes(host_memory().count() / cluster.devices_per_node);
  // Rough rates of a server core with two 512-bit multiply-add units at 2.5 GHz, and a core's share
  // of its memory bus.
  cluster.device.peak_fp32 = FlopsPerSecond(160e9);
  cluster.device.memory_bandwidth = BytesPerSecond(10e9);
  cluster.intra = {Seconds(1e-6), BytesPerSecond(20e9)};
  cluster.inter = cluster.intra;
  cluster.origin = {"rough rates of a current server core; weir profile measures this one"};
  return cluster;
}

Cluster local_cluster(BackendKind backend, int devices) {
  return backend == BackendKind::cuda ? gpu_cluster(devices) : host_cluster();
}

Backends available_backends() {
  Backends backends;
#ifdef WEIR_HAS_CPU_BACKEND
  backends[BackendKind::cpu] = make_cpu_backend;
#endif
#ifdef WEIR_HAS_CUDA_BACKEND
  backends[BackendKind::cuda] = cuda_backends();
#endif
  return backends;
}

BackendKind parse_backend(const std::string& name) {
  for (const BackendKind kind : {BackendKind::cpu, BackendKind::cuda, BackendKind::synthetic}) {
    if (name == to_string(kind)) return kind;
  }
  throw UsageError(fmt::format("--backend {}: expected cpu, cuda or synthetic", name));
}

}  // namespace weir

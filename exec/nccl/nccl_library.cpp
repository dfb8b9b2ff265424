// What a linker would take from libnccl.so: each function is that of the library that was found.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_library.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include "exec/cuda/driver/shared_library.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// The first with all that ncclConfig_t is told here (maxCTAs: 2.17).
constexpr int kOldest = 21700;

struct Nccl {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
};

std::string dotted(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// Fills `nccl`, or says why not.
std::string load(const std::vector<std::string>& libraries, Nccl& nccl) {
  std::string why = find_entries(
      libraries, Entry{"ncclGetVersion", nccl.get_version},
      Entry{"ncclGetUniqueId", nccl.get_unique_id}, Entry{"ncclCommInitRankConfig", nccl.init_rank},
      Entry{"ncclCommFinalize", nccl.finalize}, Entry{"ncclCommAbort", nccl.abort},
      Entry{"ncclCommGetAsyncError", nccl.async_error},
      Entry{"ncclGetErrorString", nccl.error_string}, Entry{"ncclGetLastError", nccl.last_error},
      Entry{"ncclGroupStart", nccl.group_start}, Entry{"ncclGroupEnd", nccl.group_end},
      Entry{"ncclSend", nccl.send}, Entry{"ncclRecv", nccl.receive});
  if (!why.empty()) return why;
  int version = 0;
  if (nccl.get_version(&version) != ncclSuccess) return "NCCL does not say its version";
  if (version < kOldest || version / 10000 != NCCL_MAJOR) {
    return fmt::format("NCCL {} is here, expected {}.x from {} on", dotted(version), NCCL_MAJOR,
                       dotted(kOldest));
  }
  return "";
}

// A library stays loaded, for all of the process.
const Loaded<Nccl>& loaded() {
  static const Loaded<Nccl> once = [] {
    Loaded<Nccl> found;
    found.why = load(nccl_libraries(), found.api);
    return found;
  }();
  return once;
}

const Nccl& nccl() { return loaded().api; }

}  // namespace

std::vector<std::string> nccl_libraries() {
  return library_names(fmt::format("libnccl.so.{}", NCCL_MAJOR), {"../../nccl/lib"});
}

std::string why_no_nccl(const std::vector<std::string>& libraries) {
  Nccl none;
  return load(libraries, none);
}

std::string nccl_missing() { return loaded().why; }

void require_nccl() {
  const std::string why = nccl_missing();
  if (!why.empty()) throw MissingComponent("messages over NCCL: " + why);
}

}  // namespace weir

extern "C" {
ncclResult_t ncclGetVersion(int* version) { return weir::nccl().get_version(version); }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return weir::nccl().get_unique_id(id); }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int members, ncclUniqueId id, int own,
                                    ncclConfig_t* config) {
  return weir::nccl().init_rank(made, members, id, own, config);
}
ncclResult_t ncclCommFinalize(ncclComm_t handle) { return weir::nccl().finalize(handle); }
ncclResult_t ncclCommAbort(ncclComm_t handle) { return weir::nccl().abort(handle); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return weir::nccl().async_error(handle, error);
}
const char* ncclGetErrorString(ncclResult_t status) { return weir::nccl().error_string(status); }
const char* ncclGetLastError(ncclComm_t handle) { return weir::nccl().last_error(handle); }
ncclResult_t ncclGroupStart() { return weir::nccl().group_start(); }
ncclResult_t ncclGroupEnd() { return weir::nccl().group_end(); }
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, cudaStream_t stream) {
  return weir::nccl().send(from, count, type, peer, handle, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  return weir::nccl().receive(to, count, type, peer, handle, stream);
}
}

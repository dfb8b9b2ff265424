// What a linker would take from libcudnn.so: each function is that of the library that was found.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn/cudnn_library.hpp"

#include <cudnn_graph.h>
#include <fmt/format.h>

#include "exec/cuda/driver/shared_library.hpp"

namespace weir {
namespace {

struct Cudnn {
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
};

// Fills `cudnn`, or says why not.
std::string load(const std::vector<std::string>& libraries, Cudnn& cudnn) {
  std::string why = find_entries(
      libraries, Entry{"cudnnGetVersion", cudnn.get_version},
      Entry{"cudnnGetErrorString", cudnn.error_string},
      Entry{"cudnnGetLastErrorString", cudnn.last_error}, Entry{"cudnnCreate", cudnn.create},
      Entry{"cudnnDestroy", cudnn.destroy}, Entry{"cudnnSetStream", cudnn.set_stream},
      Entry{"cudnnBackendCreateDescriptor", cudnn.create_descriptor},
      Entry{"cudnnBackendDestroyDescriptor", cudnn.destroy_descriptor},
      Entry{"cudnnBackendSetAttribute", cudnn.set_attribute},
      Entry{"cudnnBackendGetAttribute", cudnn.get_attribute},
      Entry{"cudnnBackendFinalize", cudnn.finalize}, Entry{"cudnnBackendExecute", cudnn.execute});
  if (!why.empty()) return why;
  const std::size_t version = cudnn.get_version();
  // Attributes and their meaning may change with the major version: another one is as good as none.
  if (version / 10000 != CUDNN_MAJOR) {
    return fmt::format("cuDNN {}.{}.{} is here, expected {}.x", version / 10000,
                       version / 100 % 100, version % 100, CUDNN_MAJOR);
  }
  return "";
}

// A library stays loaded, for all of the process.
const Loaded<Cudnn>& loaded() {
  static const Loaded<Cudnn> once = [] {
    Loaded<Cudnn> found;
    found.why = load(cudnn_libraries(), found.api);
    return found;
  }();
  return once;
}

const Cudnn& cudnn() { return loaded().api; }

}  // namespace

std::vector<std::string> cudnn_libraries() {
  return library_names(fmt::format("libcudnn.so.{}", CUDNN_MAJOR), {"../../cudnn/lib"});
}

std::string why_no_cudnn(const std::vector<std::string>& libraries) {
  Cudnn none;
  return load(libraries, none);
}

std::string cudnn_missing() { return loaded().why; }

}  // namespace weir

extern "C" {
size_t cudnnGetVersion() { return weir::cudnn().get_version(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return weir::cudnn().error_string(status); }
void cudnnGetLastErrorString(char* words, size_t most) { weir::cudnn().last_error(words, most); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return weir::cudnn().create(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return weir::cudnn().destroy(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return weir::cudnn().set_stream(handle, stream);
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  return weir::cudnn().create_descriptor(type, made);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return weir::cudnn().destroy_descriptor(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  return weir::cudnn().set_attribute(descriptor, name, type, count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked,
                                       int64_t* count, void* values) {
  return weir::cudnn().get_attribute(descriptor, name, type, asked, count, values);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return weir::cudnn().finalize(descriptor);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return weir::cudnn().execute(handle, plan, pack);
}
}

// cuDNN's backend API: descriptors keep what they are told, the heuristics propose one engine, and
// a plan runs attention by its formulas. Which tensor is which goes by the order in which
// exec/cuda/cudnn/cudnn_attention makes them. A handle belongs to the context it is made in and
// refuses streams of others.
// SPDX-License-Identifier: Apache-2.0
#ifdef WEIR_HAS_CUDNN
#include <cuda_bf16.h>
#include <cudnn_graph.h>

#include <cmath>
#include <cstring>
#include <map>

#include "exec/cuda/cudnn/cudnn_library.hpp"
#include "tests/exec_cuda/recorded/calls.hpp"

using namespace weir::recorded;

namespace {

#define WEIR_CUDNN_CALL() WEIR_CALL_OR(CUDNN_STATUS_INTERNAL_ERROR)

struct Node;
struct Attribute {
  std::vector<std::byte> data;
  std::vector<std::shared_ptr<Node>> nodes;
};
struct Node {
  cudnnBackendDescriptorType_t type{};
  std::map<int, Attribute> attributes;

  [[nodiscard]] const Node& one(cudnnBackendAttributeName_t name) const {
    return *attributes.at(name).nodes.at(0);
  }
  template <class T>
  [[nodiscard]] std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const std::vector<std::byte>& data = attributes.at(name).data;
    std::vector<T> values(data.size() / sizeof(T));
    std::memcpy(values.data(), data.data(), data.size());
    return values;
  }
};
std::shared_ptr<Node>& of(cudnnBackendDescriptor_t handle) {
  return *static_cast<std::shared_ptr<Node>*>(handle);
}

struct Handle {
  Context* context = nullptr;
  Stream* stream = nullptr;
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;  // enumerations
  }
}

// A tensor [b, h, s, d] of bf16 or of one float a row, where the caller bound it.
struct Bound {
  std::vector<std::int64_t> dims, strides;
  bool bf16 = false;
  std::byte* data = nullptr;

  [[nodiscard]] std::byte* at(std::int64_t b, std::int64_t h, std::int64_t i,
                              std::int64_t e) const {
    const std::int64_t place = b * strides[0] + h * strides[1] + i * strides[2] + e * strides[3];
    return data + place * (bf16 ? 2 : 4);
  }
  [[nodiscard]] double get(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t e) const {
    const std::byte* from = at(b, h, i, e);
    machine().reads(from, bf16 ? 2 : 4);
    return bf16 ? double{__bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(from))}
                : double{*reinterpret_cast<const float*>(from)};
  }
  void set(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t e, double value) const {
    std::byte* to = at(b, h, i, e);
    machine().writes(to, bf16 ? 2 : 4);
    if (bf16) {
      *reinterpret_cast<__nv_bfloat16*>(to) = __float2bfloat16_rn(static_cast<float>(value));
    } else {
      *reinterpret_cast<float*>(to) = static_cast<float>(value);
    }
  }
};

struct Sizes {
  std::int64_t b, h, kv, s, d;
  std::int64_t window;  // keys that a query sees, itself the last
  bool causal;
  [[nodiscard]] std::int64_t first_key(std::int64_t query) const {
    return query < window ? 0 : query - window + 1;
  }
  [[nodiscard]] std::int64_t last_key(std::int64_t query) const { return causal ? query : s - 1; }
};

void run_forward(const std::vector<Bound>& t, Sizes z, double scale) {
  const Bound &q = t[0], &k = t[1], &v = t[2], &context = t[5], &statistics = t[6];
  std::vector<double> p(static_cast<std::size_t>(z.s)), row(static_cast<std::size_t>(z.d));
  for (std::int64_t b = 0; b < z.b; ++b) {
    for (std::int64_t h = 0; h < z.h; ++h) {
      const std::int64_t of = h * z.kv / z.h;  // the head of keys and values
      for (std::int64_t i = 0; i < z.s; ++i) {
        double total = 0;
        std::fill(row.begin(), row.end(), 0);
        for (std::int64_t j = z.first_key(i); j <= z.last_key(i); ++j) {
          double score = 0;
          for (std::int64_t e = 0; e < z.d; ++e) score += q.get(b, h, i, e) * k.get(b, of, e, j);
          p[static_cast<std::size_t>(j)] = std::exp(score * scale);
          total += p[static_cast<std::size_t>(j)];
        }
        for (std::int64_t j = z.first_key(i); j <= z.last_key(i); ++j) {
          for (std::int64_t e = 0; e < z.d; ++e)
            row[static_cast<std::size_t>(e)] +=
                p[static_cast<std::size_t>(j)] / total * v.get(b, of, j, e);
        }
        for (std::int64_t e = 0; e < z.d; ++e)
          context.set(b, h, i, e, row[static_cast<std::size_t>(e)]);
        statistics.set(b, h, i, 0, std::log(total));
      }
    }
  }
}

void run_backward(const std::vector<Bound>& t, Sizes z, double scale) {
  const Bound &q = t[0], &k = t[1], &v = t[2], &context = t[6], &d_context = t[7],
              &statistics = t[8], &row_sums = t[9], &dq = t[10], &dk = t[11], &dv = t[12];
  const auto count = static_cast<std::size_t>(z.s * z.d);
  const auto place = [&](std::int64_t i, std::int64_t e) {
    return static_cast<std::size_t>(i * z.d + e);
  };
  std::vector<double> k_sum, v_sum;  // of the heads of queries that share them
  for (std::int64_t b = 0; b < z.b; ++b) {
    for (std::int64_t h = 0; h < z.h; ++h) {
      const std::int64_t of = h * z.kv / z.h, group = z.h / z.kv;
      std::vector<double> q_sum(count);
      if (h % group == 0) {
        k_sum.assign(count, 0);
        v_sum.assign(count, 0);
      }
      for (std::int64_t i = 0; i < z.s; ++i) {
        double sum = 0;
        for (std::int64_t e = 0; e < z.d; ++e)
          sum += context.get(b, h, i, e) * d_context.get(b, h, i, e);
        row_sums.set(b, h, i, 0, sum);
        for (std::int64_t j = z.first_key(i); j <= z.last_key(i); ++j) {
          double score = 0, dp = 0;
          for (std::int64_t e = 0; e < z.d; ++e) {
            score += q.get(b, h, i, e) * k.get(b, of, e, j);
            dp += d_context.get(b, h, i, e) * v.get(b, of, e, j);
          }
          const double p = std::exp(score * scale - statistics.get(b, h, i, 0));
          const double ds = p * (dp - sum) * scale;
          for (std::int64_t e = 0; e < z.d; ++e) {
            q_sum[place(i, e)] += ds * k.get(b, of, e, j);
            k_sum[place(j, e)] += ds * q.get(b, h, i, e);
            v_sum[place(j, e)] += p * d_context.get(b, h, i, e);
          }
        }
      }
      for (std::int64_t i = 0; i < z.s; ++i) {
        for (std::int64_t e = 0; e < z.d; ++e) {
          dq.set(b, h, i, e, q_sum[place(i, e)]);
          if (h % group != group - 1) continue;
          dk.set(b, of, i, e, k_sum[place(i, e)]);
          dv.set(b, of, i, e, v_sum[place(i, e)]);
        }
      }
    }
  }
}

// The tensors of a graph that a caller binds, in the order in which they were made.
std::map<std::int64_t, Bound> bound_tensors(const Node& graph) {
  std::map<std::int64_t, Bound> found;
  for (const auto& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes) {
    for (const auto& [name, attribute] : operation->attributes) {
      for (const auto& node : attribute.nodes) {
        if (node->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
            node->all<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL).at(0) != 0)
          continue;
        Bound& tensor = found[node->all<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID).at(0)];
        tensor.dims = node->all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
        tensor.strides = node->all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
        tensor.bf16 = node->all<int>(CUDNN_ATTR_TENSOR_DATA_TYPE).at(0) == CUDNN_DATA_BFLOAT16;
      }
    }
  }
  return found;
}

}  // namespace

// In the place of exec/cuda/cudnn/cudnn_library.cpp, as the functions below.
namespace weir {
std::string cudnn_missing() {
  return machine().faults.absent_libraries ? "no libcudnn.so.9 on this machine" : "";
}
}  // namespace weir

extern "C" {
size_t cudnnGetVersion() { return 91000; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the recorded cuDNN"; }
void cudnnGetLastErrorString(char* words, size_t) { words[0] = 0; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  WEIR_CUDNN_CALL();
  Context* context =
      current().pushed.empty() ? &machine().primary(current().device) : current().pushed.back();
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle{context, nullptr});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const std::scoped_lock lock(machine().mutex);
  machine().held.erase(handle);
  delete reinterpret_cast<Handle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t on) {
  WEIR_CUDNN_CALL();
  auto& own = *reinterpret_cast<Handle*>(handle);
  if (on == nullptr) {
    own.stream = nullptr;
    machine().held.erase(handle);
    return CUDNN_STATUS_SUCCESS;
  }
  Stream* stream = machine().find(on, current().device);
  if (stream == nullptr || stream->context != own.context)
    return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  own.stream = stream;
  machine().held[handle] = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  WEIR_CUDNN_CALL();
  auto node = std::make_shared<Node>();
  node->type = type;
  *made = new std::shared_ptr<Node>(std::move(node));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  WEIR_CUDNN_CALL();
  Attribute& attribute = of(descriptor)->attributes[name];
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* handles = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (int64_t i = 0; i < count; ++i) attribute.nodes.push_back(of(handles[i]));
  } else {
    const auto* from = static_cast<const std::byte*>(values);
    attribute.data.assign(from, from + static_cast<std::size_t>(count) * size_of(type));
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) {
  WEIR_CUDNN_CALL();
  return CUDNN_STATUS_SUCCESS;
}
// Heuristics give one configuration, a configuration its engine, an engine no notes, a plan the
// scratch memory it asks for.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t room, int64_t* count,
                                       void* values) {
  WEIR_CUDNN_CALL();
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && room > 0) {
    of(*static_cast<cudnnBackendDescriptor_t*>(values))
        ->attributes[CUDNN_ATTR_ENGINECFG_ENGINE]
        .nodes = of(descriptor)->attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).nodes;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    const int64_t bytes = 4096;
    std::memcpy(values, &bytes, sizeof(bytes));
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = 0;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  WEIR_CUDNN_CALL();
  Stream* stream = reinterpret_cast<Handle*>(handle)->stream;
  if (stream == nullptr) {
    machine().violation("cuDNN runs on no stream");
    return CUDNN_STATUS_EXECUTION_FAILED;
  }
  const Node& graph =
      of(plan)->one(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).one(CUDNN_ATTR_ENGINECFG_ENGINE);
  std::map<std::int64_t, Bound> tensors = bound_tensors(graph);
  const auto ids = of(pack)->all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = of(pack)->all<std::byte*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < ids.size(); ++i) tensors.at(ids[i]).data = pointers[i];
  std::vector<Bound> in_order;
  for (const auto& [id, tensor] : tensors) in_order.push_back(tensor);
  for (const Bound& tensor : in_order) {
    if (tensor.bf16 && reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0)
      machine().violation("a tensor of cuDNN is not aligned to 16 bytes");
  }
  const std::vector<std::int64_t>& q = in_order.at(0).dims;
  const bool backward = in_order.size() >= 12;
  // Where attention is not causal nothing is set to minus infinity, whose place is the fifth.
  const bool causal = in_order.size() >= (backward ? 13U : 7U);
  if (!causal) in_order.insert(in_order.begin() + 4, Bound{});
  // A window's number is the last to be made, where there is one.
  std::int32_t window = static_cast<std::int32_t>(q[2]);
  if (in_order.size() == (backward ? 14 : 8))
    std::memcpy(&window, in_order.back().data, sizeof(window));
  const Sizes z{q[0], q[1], in_order.at(1).dims[1], q[2], q[3], window, causal};
  float scale = 0;  // lies in the host's memory, and is read now
  std::memcpy(&scale, in_order.at(3).data, sizeof(scale));
  const auto workspace = of(pack)->all<std::byte*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).at(0);
  put(*stream, {.what = backward ? "cuDNN's backward" : "cuDNN's forward",
                .work = [in_order, z, scale, workspace, backward] {
                  machine().writes(workspace, 4096);
                  (backward ? run_backward : run_forward)(in_order, z, double{scale});
                }});
  return CUDNN_STATUS_SUCCESS;
}
}
#endif

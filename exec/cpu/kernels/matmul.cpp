// Gemms by oneDNN, a primitive for each shape, made once.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/matmul.hpp"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "exec/cpu/kernels/library_memory.hpp"

extern "C" void omp_set_num_threads(
    int);  // Debian's oneDNN runs on OpenMP, whose setting is per thread

namespace weir::cpu {
namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride) {
  return {{rows, columns}, memory::data_type::f32, memory::dims{row_stride, column_stride}};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Gemm& p) {
  dnnl::primitive_attr attributes;
  // Scratch is ours to give, so that the arena counts it.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    // Beta one, as a sum behind the product.
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const auto a = matrix(p.m, p.k, p.a_row, p.a_column);
  const auto b = matrix(p.k, p.n, p.b_row, p.b_column);
  const auto c = matrix(p.m, p.n, p.c_row, 1);
  const auto bias = matrix(1, p.n, p.n, 1);
#if DNNL_VERSION_MAJOR >= 3
  if (p.bias) return {engine, a, b, bias, c, attributes};
  return {engine, a, b, c, attributes};
#else
  if (p.bias) return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

}  // namespace

struct Matmul::Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

struct Matmul::Kernel {
  Kernel(const dnnl::engine& engine, const Gemm& gemm)
      : description(describe(engine, gemm)),
        primitive(description),
        a(description.src_desc(), engine, nullptr),
        b(description.weights_desc(), engine, nullptr),
        c(description.dst_desc(), engine, nullptr),
        scratch(description.scratchpad_desc(), engine, nullptr) {
    arguments = {{DNNL_ARG_SRC, a},
                 {DNNL_ARG_WEIGHTS, b},
                 {DNNL_ARG_DST, c},
                 {DNNL_ARG_SCRATCHPAD, scratch}};
    if (gemm.bias) {
      bias = memory(matrix(1, gemm.n, gemm.n, 1), engine, nullptr);
      arguments.insert({DNNL_ARG_BIAS, bias});
    }
  }
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  memory a, b, c, scratch, bias;
  std::unordered_map<int, memory> arguments;
  bool ran = false;
};

Matmul::Matmul() : library_(std::make_unique<Library>()) {}
Matmul::~Matmul() = default;

Matmul::Kernel& Matmul::kernel(const Gemm& gemm) {
  auto& made = kernels_[gemm];
  if (!made) {
    require_library_memory();
    made = std::make_unique<Kernel>(library_->engine, gemm);
    scratch_bytes_ = std::max(
        scratch_bytes_, static_cast<std::int64_t>(made->description.scratchpad_desc().get_size()));
  }
  return *made;
}

void Matmul::prepare(const Gemm& gemm) { static_cast<void>(kernel(gemm)); }

void Matmul::run(const Gemm& gemm, const float* a, const float* b, const float* bias, float* c) {
  Kernel& k = kernel(gemm);
  // oneDNN's memory objects are mutable handles; sources are read only.
  k.a.set_data_handle(const_cast<float*>(a));
  k.b.set_data_handle(const_cast<float*>(b));
  k.c.set_data_handle(c);
  if (gemm.bias) k.bias.set_data_handle(const_cast<float*>(bias));
  k.scratch.set_data_handle(scratch_);
  if (!std::exchange(k.ran, true)) require_library_memory();
  k.primitive.execute(library_->stream, k.arguments);
}

void use_one_thread() { omp_set_num_threads(1); }

}  // namespace weir::cpu

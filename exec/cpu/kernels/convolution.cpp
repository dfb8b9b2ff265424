// Convolutions by oneDNN: three primitives and the reorders of their weights for each size.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/convolution.hpp"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "exec/cpu/kernels/library_memory.hpp"
#include "plan/model/tensor_list.hpp"

namespace weir::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc map_of(std::int64_t batch, std::int64_t channels, std::int64_t height,
                    std::int64_t width) {
  return {{batch, channels, height, width}, memory::data_type::f32, Tag::nhwc};
}

// With groups a dimension more.
memory::desc weights_of(const ConvolutionSize& s, bool any) {
  if (s.groups == 1) {
    return {{s.out, s.in, s.kernel_height, s.kernel_width},
            memory::data_type::f32,
            any ? Tag::any : Tag::oihw};
  }
  return {{s.groups, s.out / s.groups, s.in / s.groups, s.kernel_height, s.kernel_width},
          memory::data_type::f32,
          any ? Tag::any : Tag::goihw};
}

// Rows added behind the map for the last window: it begins at stride (out - 1) - before.
std::int64_t behind(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                    std::int64_t before) {
  return (out - 1) * stride + kernel - in - before;
}

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

struct Geometry {
  memory::desc source, weights, bias, target;
  memory::dims strides, before, after;
};

Geometry geometry(const ConvolutionSize& s) {
  return {map_of(s.batch, s.in, s.in_height, s.in_width),
          weights_of(s, true),
          s.bias ? memory::desc({s.out}, memory::data_type::f32, Tag::x) : memory::desc(),
          map_of(s.batch, s.out, s.out_height, s.out_width),
          {s.stride_y, s.stride_x},
          {s.pad_y, s.pad_x},
          {behind(s.in_height, s.out_height, s.kernel_height, s.stride_y, s.pad_y),
           behind(s.in_width, s.out_width, s.kernel_width, s.stride_x, s.pad_x)}};
}

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR >= 3
Forward::primitive_desc describe_forward(const dnnl::engine& engine, const Geometry& g) {
  return {engine,          dnnl::prop_kind::forward_training,
          kDirect,         g.source,
          g.weights,       g.bias,
          g.target,        g.strides,
          g.before,        g.after,
          own_scratchpad()};
}
BackwardData::primitive_desc describe_input(const dnnl::engine& engine, const Geometry& g,
                                            const Forward::primitive_desc& hint) {
  return {engine,    kDirect,  g.source, g.weights, g.target,
          g.strides, g.before, g.after,  hint,      own_scratchpad()};
}
BackwardWeights::primitive_desc describe_weights(const dnnl::engine& engine, const Geometry& g,
                                                 const Forward::primitive_desc& hint) {
  return {engine,    kDirect,  g.source, g.weights, g.target,
          g.strides, g.before, g.after,  hint,      own_scratchpad()};
}
#else
Forward::primitive_desc describe_forward(const dnnl::engine& engine, const Geometry& g) {
  return {{dnnl::prop_kind::forward_training, kDirect, g.source, g.weights, g.bias, g.target,
           g.strides, g.before, g.after},
          own_scratchpad(),
          engine};
}
BackwardData::primitive_desc describe_input(const dnnl::engine& engine, const Geometry& g,
                                            const Forward::primitive_desc& hint) {
  return {{kDirect, g.source, g.weights, g.target, g.strides, g.before, g.after},
          own_scratchpad(),
          engine,
          hint};
}
BackwardWeights::primitive_desc describe_weights(const dnnl::engine& engine, const Geometry& g,
                                                 const Forward::primitive_desc& hint) {
  return {{kDirect, g.source, g.weights, g.target, g.strides, g.before, g.after},
          own_scratchpad(),
          engine,
          hint};
}
#endif

std::int64_t size_of(const memory::desc& description) {
  return static_cast<std::int64_t>(description.get_size());
}

void put(memory& into, const void* data) {
  into.set_data_handle(const_cast<void*>(data));  // sources are read only
}

}  // namespace

struct Convolutions::Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// The scratch of a pass: weights in the library's order, then a primitive's or a reorder's own.
struct Convolutions::Kernels {
  Kernels(const dnnl::engine& engine, const ConvolutionSize& size)
      : plain_weights(weights_of(size, false), engine, nullptr),
        forward_description(describe_forward(engine, geometry(size))),
        input_description(describe_input(engine, geometry(size), forward_description)),
        weight_description(describe_weights(engine, geometry(size), forward_description)),
        forward(forward_description),
        input(input_description),
        weights(weight_description),
        x(forward_description.src_desc(), engine, nullptr),
        y(forward_description.dst_desc(), engine, nullptr),
        forward_weights(forward_description.weights_desc(), engine, nullptr),
        input_weights(input_description.weights_desc(), engine, nullptr),
        weight_gradient(weight_description.diff_weights_desc(), engine, nullptr),
        forward_scratch(forward_description.scratchpad_desc(), engine, nullptr),
        input_scratch(input_description.scratchpad_desc(), engine, nullptr),
        weight_scratch(weight_description.scratchpad_desc(), engine, nullptr),
        to_forward(reorder(engine, plain_weights, forward_weights)),
        to_input(reorder(engine, plain_weights, input_weights)),
        to_plain(reorder(engine, weight_gradient, plain_weights)),
        forward_order(to_forward),
        input_order(to_input),
        plain_order(to_plain) {
    if (size.bias) bias = memory(forward_description.bias_desc(), engine, nullptr);
    // One room for weights in the library's order: the three passes never need it at once.
    ordered_bytes = aligned_bytes(
        std::max({size_of(forward_weights.get_desc()), size_of(input_weights.get_desc()),
                  size_of(weight_gradient.get_desc())}));
    plain_bytes = aligned_bytes(size_of(plain_weights.get_desc()));
    // Likewise one scratch, as large as the largest.
    std::int64_t own = 0;
    for (const memory::desc& scratch :
         {forward_description.scratchpad_desc(), input_description.scratchpad_desc(),
          weight_description.scratchpad_desc(), to_forward.scratchpad_desc(),
          to_input.scratchpad_desc(), to_plain.scratchpad_desc()}) {
      own = std::max(own, size_of(scratch));
    }
    scratch_bytes = ordered_bytes + plain_bytes + aligned_bytes(own);
  }

  static dnnl::reorder::primitive_desc reorder(const dnnl::engine& engine, const memory& from,
                                               const memory& to) {
    return {engine, from.get_desc(), engine, to.get_desc(), own_scratchpad()};
  }

  memory plain_weights;
  Forward::primitive_desc forward_description;
  BackwardData::primitive_desc input_description;
  BackwardWeights::primitive_desc weight_description;
  Forward forward;
  BackwardData input;
  BackwardWeights weights;
  memory x, y, bias, forward_weights, input_weights, weight_gradient;
  memory forward_scratch, input_scratch, weight_scratch;
  dnnl::reorder::primitive_desc to_forward, to_input, to_plain;
  dnnl::reorder forward_order, input_order, plain_order;
  std::int64_t ordered_bytes = 0, plain_bytes = 0, scratch_bytes = 0;
};

Convolutions::Convolutions() : library_(std::make_unique<Library>()) {}
Convolutions::~Convolutions() = default;

Convolutions::Kernels& Convolutions::kernels(const ConvolutionSize& size) {
  auto& made = kernels_[size];
  if (!made) {
    require_library_memory();
    made = std::make_unique<Kernels>(library_->engine, size);
    scratch_bytes_ = std::max(scratch_bytes_, made->scratch_bytes);
  }
  return *made;
}

void Convolutions::prepare(const ConvolutionSize& size) { static_cast<void>(kernels(size)); }

namespace {

// Puts `weights` into the order of `ordered`, at `scratch`, unless they are in it already.
void order(const dnnl::stream& stream, const dnnl::reorder& reorder,
           const dnnl::reorder::primitive_desc& description, memory& plain, memory& ordered,
           const float* weights, std::byte* scratch, std::byte* own, const dnnl::engine& engine) {
  put(plain, weights);
  if (plain.get_desc() == ordered.get_desc()) {
    put(ordered, weights);
    return;
  }
  put(ordered, scratch);
  const memory pad(description.scratchpad_desc(), engine, own);
  reorder.execute(stream,
                  {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, ordered}, {DNNL_ARG_SCRATCHPAD, pad}});
}

}  // namespace

void Convolutions::forward(const ConvolutionSize& size, const float* x, const float* w,
                           const float* bias, float* y) {
  Kernels& k = kernels(size);
  // Scratch: ordered weights, then plain ones, then the library's own.
  std::byte* own = scratch_ + k.ordered_bytes + k.plain_bytes;
  order(library_->stream, k.forward_order, k.to_forward, k.plain_weights, k.forward_weights, w,
        scratch_, own, library_->engine);
  put(k.x, x);
  put(k.y, y);
  put(k.forward_scratch, own);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, k.x},
                                            {DNNL_ARG_WEIGHTS, k.forward_weights},
                                            {DNNL_ARG_DST, k.y},
                                            {DNNL_ARG_SCRATCHPAD, k.forward_scratch}};
  if (size.bias) {
    put(k.bias, bias);
    arguments.insert({DNNL_ARG_BIAS, k.bias});
  }
  k.forward.execute(library_->stream, arguments);
}

void Convolutions::input_gradient(const ConvolutionSize& size, const float* w, const float* dy,
                                  float* dx) {
  Kernels& k = kernels(size);
  std::byte* own = scratch_ + k.ordered_bytes + k.plain_bytes;
  order(library_->stream, k.input_order, k.to_input, k.plain_weights, k.input_weights, w, scratch_,
        own, library_->engine);
  put(k.x, dx);
  put(k.y, dy);
  put(k.input_scratch, own);
  k.input.execute(library_->stream, {{DNNL_ARG_DIFF_DST, k.y},
                                     {DNNL_ARG_WEIGHTS, k.input_weights},
                                     {DNNL_ARG_DIFF_SRC, k.x},
                                     {DNNL_ARG_SCRATCHPAD, k.input_scratch}});
}

void Convolutions::weight_gradient(const ConvolutionSize& size, const float* x, const float* dy,
                                   Beta beta, float* dw) {
  Kernels& k = kernels(size);
  std::byte* own = scratch_ + k.ordered_bytes + k.plain_bytes;
  const bool plain = k.weight_gradient.get_desc() == k.plain_weights.get_desc();
  put(k.x, x);
  put(k.y, dy);
  put(k.weight_scratch, own);
  // The library overwrites: straight into place only where nothing is there yet.
  put(k.weight_gradient, plain && beta == Beta::zero ? static_cast<void*>(dw) : scratch_);
  k.weights.execute(library_->stream, {{DNNL_ARG_SRC, k.x},
                                       {DNNL_ARG_DIFF_DST, k.y},
                                       {DNNL_ARG_DIFF_WEIGHTS, k.weight_gradient},
                                       {DNNL_ARG_SCRATCHPAD, k.weight_scratch}});
  const auto* made = reinterpret_cast<const float*>(scratch_);
  if (!plain) {
    // Where it must be added, the gradient in our order is an intermediate.
    std::byte* to =
        beta == Beta::zero ? reinterpret_cast<std::byte*>(dw) : scratch_ + k.ordered_bytes;
    put(k.plain_weights, to);
    const memory pad(k.to_plain.scratchpad_desc(), library_->engine, own);
    k.plain_order.execute(library_->stream, {{DNNL_ARG_FROM, k.weight_gradient},
                                             {DNNL_ARG_TO, k.plain_weights},
                                             {DNNL_ARG_SCRATCHPAD, pad}});
    made = reinterpret_cast<const float*>(to);
  }
  if (beta == Beta::zero) return;
  const std::int64_t numbers =
      size.out * (size.in / size.groups) * size.kernel_height * size.kernel_width;
  add(made, numbers, dw);
}

}  // namespace weir::cpu

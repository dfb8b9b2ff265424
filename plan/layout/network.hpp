// Networks over named dimensions: layers, repeated, of products, norms, softmax, gathers and moves
// (Mesh-TensorFlow's language, Shazeer et al., NeurIPS 2018, beyond its einsums). What is sent to
// run one under a layout is derived in plan/layout/exchanges.
//
//   n = norm(x gain) over hidden     rows of one mean and one deviation; gains may follow
//   q = t w                          a product, summed over what the output does not have
//   p = softmax(s) over keys
//   u = turn(q) over tokens          rotary positions: each pair of the last dimension's numbers,
//                                    by its place along tokens (Su et al. 2021, section 3.2)
//   x = gather(table) over vocab     rows of a table, picked by integers
//   t = move(n)                      the same numbers under another dimension: n[batch, rows] as
//                                    t[batch, tokens]; where one is split and the other is not,
//                                    or over another mesh dimension, they travel
//   v = route(t), a = back(o)        copies of tokens to the experts that they visit, and home
//   xt = step(x) over time           the present one of the steps that x has, in their order
//   h = carry(n) over time           the state h is what n was a step ago, and 0 at the first one
//   y = stack(n) over time           all steps' n beside each other
//
// A layer reads the layer before, or those that it names: branches fork where several read one, and
// join where one reads several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/layout/layout.hpp"
#include "plan/layout/program.hpp"

namespace weir::layout {

enum class Act : std::uint8_t {
  product,    // of two
  weigh,      // the same, element by element and summed: no matrix product
  apply,      // a function of each element: gelu, gelu_tanh, relu, silu, tanh
  glu,        // one half is the other's gate: over the dimension of 2 that holds both
  turn,       // rotary positions: linear, and backwards the same by the angles' negatives
  add,        // biases and residuals
  norm,       // two statistics a row are kept
  rms_norm,   // one
  softmax,    //
  attention,  // scores, softmax and sum in one kernel that keeps one statistic a row
  gather,     // of a table
  loss,       // softmax and cross-entropy, its targets given
  move,       //
  route,      // to [places of experts..., places that stay at home], which is written last
  back,       //
  choose,     // the few of many: the weights of the experts visited
  step,       // one of many steps, in order
  carry,      // to the next step, as by a move
  stack       // of all steps
};
[[nodiscard]] std::string_view to_string(Act act);

enum class Role : std::uint8_t {
  value,
  weight,
  tied,  // a weight that another layer has
  state  // a value that goes from step to step
};

struct NetworkTensor {
  std::string name;
  std::vector<int> dimensions;  // of the network's, each at most once
  Role role = Role::value;
};

[[nodiscard]] inline bool is_weight(const NetworkTensor& tensor) {
  return tensor.role == Role::weight || tensor.role == Role::tied;
}

struct Operation {
  Act act = Act::product;
  std::string function;     // of apply
  int output = 0;           // of the layer's tensors
  std::vector<int> inputs;  //
  int over = -1;            // the dimension after "over", where the act has one
  std::vector<int> all;     // the dimensions of all its tensors, each once, ascending
};

// A value that no operation makes: another layer's output, or data, which gets no gradient.
struct Given {
  int tensor = 0;
  int source = -1;         // of the network's layers; -1: data
  bool elsewhere = false;  // F keeps it for another layer already
};

// Operations in order; the last one makes the layer's output. With `repeat` the first given value
// is what the repetition before made; the others are the same for all.
struct NetworkLayer {
  std::string name;
  std::int64_t repeat = 1;
  std::optional<std::vector<std::string>> reads;  // layers, or "data", a name a given value, in the
                                                  // order of tensors; none: the layer before
  std::vector<NetworkTensor> tensors;
  std::vector<Operation> operations;
  std::vector<Given> given;    // none: as of an embedding, whose integers are not seen here
  int input = -1;              // the tensor of the first of them
  int time = -1;               // the dimension of its steps, where it has some (plan/layout/steps)
  std::vector<bool> stepwise;  // by tensor: there is one for each step
  std::vector<bool> behind;    // by tensor: it is made of all steps, when the last is done
};

struct Network {
  std::string name;
  std::vector<Dimension> dimensions;
  std::vector<NetworkLayer> layers;
};

// A set of mesh dimensions: bit i is the i-th.
using Axes = std::uint32_t;

// Unlike a program's, a dimension may be on several mesh dimensions: it is split over all of them.
struct NetworkLayout {
  std::string name;
  std::vector<MeshDimension> mesh;  // the last varies fastest, so its processors are neighbours
  std::vector<Axes> over;           // by the network's dimension
  // Beside dimensions rules may name what is kept of a weight from step to step: the mesh
  // dimensions among which the optimizer's numbers of a weight's block are divided (ZeRO's first
  // stage: Rajbhandari et al., SC 2020), and the sums of its gradients too (the second). In equal
  // parts of all numbers of the block in a row, whatever its dimensions; a mesh dimension that the
  // weight itself is split over divides nothing.
  Axes optimizer = 0, gradients = 0;
};
// As rules write these two; no dimension of a network is called so.
inline constexpr std::string_view kOptimizer = "optimizer", kGradients = "gradients";

// Of all tensors, repetitions included; what is above kMostNumbers is refused, so that bytes of all
// of them are whole numbers of 64 bits.
inline constexpr double kMostNumbers = 9007199254740992.0;  // 2^53
[[nodiscard]] double all_elements(const Network& network);

[[nodiscard]] std::int64_t members(const NetworkLayout& layout, Axes axes);
[[nodiscard]] Axes axes_of(const NetworkLayout& layout, const std::vector<int>& dimensions);
// Mesh dimensions among which the optimizer's numbers of a weight are divided.
[[nodiscard]] Axes sharers_of(const NetworkLayout& layout, const NetworkTensor& weight);
// Elements of a tensor with these dimensions.
[[nodiscard]] double whole_elements(const Network& network, const std::vector<int>& dimensions);
// Elements of a processor's block.
[[nodiscard]] double block_elements(const Network& network, const NetworkLayout& layout,
                                    const std::vector<int>& dimensions);

// How often a step of training has a tensor of a layer: once for each step over time, or once.
[[nodiscard]] std::int64_t times_of(const Network& network, const NetworkLayer& layer, int tensor);
// Names of what a layer is given, in order: layers, or "data".
[[nodiscard]] std::vector<std::string> sources_of(const Network& network,
                                                  const NetworkLayer& layer);

// Why an operation cannot be, whatever the layout; nothing where it can.
[[nodiscard]] std::optional<std::string> malformed(const Network& network,
                                                   const NetworkLayer& layer,
                                                   const Operation& operation);
// All dimensions of an attention's two products, each once: of the scores with what they are summed
// over, and of the sums of values with the keys.
struct AttentionProducts {
  std::vector<int> scores, sums;
};
[[nodiscard]] AttentionProducts attention_products(const NetworkLayer& layer,
                                                   const Operation& attention);
// Dimensions of one tensor, or of one operation that multiplies: on no mesh dimension together.
[[nodiscard]] std::vector<std::vector<int>> apart(const NetworkLayer& layer);
// Dimensions that an operation needs whole on each processor.
[[nodiscard]] std::vector<int> needed_whole(const NetworkLayer& layer);
// Why a layout cannot be: two dimensions of a tensor or an operation on one mesh dimension; a size
// that does not divide; a dimension split that an operation needs whole. Of all layers, or of one.
// Of all also: gradients divided otherwise than the optimizer's numbers.
[[nodiscard]] std::optional<std::string> illegal(const Network& network,
                                                 const NetworkLayout& layout);
[[nodiscard]] std::optional<std::string> illegal(const Network& network, const NetworkLayer& layer,
                                                 const NetworkLayout& layout);

// "weight w[io, hidden]"; "n = norm(x gain) over hidden".
[[nodiscard]] std::string to_text(const Network& network, const NetworkTensor& tensor);
[[nodiscard]] std::string to_text(const Network& network, const NetworkLayer& layer,
                                  const Operation& operation);
// "d=4,m=2"; "" where it has no dimension.
[[nodiscard]] std::string mesh_text(const NetworkLayout& layout);
// "batch:d, heads:m"; "none".
[[nodiscard]] std::string rules_text(const Network& network, const NetworkLayout& layout);
// "d*m"; the names of a set.
[[nodiscard]] std::string axes_text(const NetworkLayout& layout, Axes axes);
// "batch*hidden/d": the formula of a block.
[[nodiscard]] std::string block_text(const Network& network, const NetworkLayout& layout,
                                     const std::vector<int>& dimensions);

}  // namespace weir::layout

// A launch takes many tensors: its arguments hold a table of them, each cut into pieces, and a
// block finds the tensor of its piece. A thread takes four elements at a time, and the block walks
// through its piece; the last few are taken one by one. The arrays begin on 64 bytes, as arenas
// give them.
// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/optimizer.hpp"

namespace weir::cuda {
namespace {

constexpr int kFour = 4;
// Sixteen rounds of a block: what it computes once is little beside them, and GPT-2's embedding
// still makes 2,356 pieces.
constexpr std::int64_t kPiece = std::int64_t{16} * kThreads * kFour;

// Arguments of a launch: by value, so that a captured graph keeps them.
struct Table {
  struct One {
    const float* gradient;  // the first of its copies
    float* master;
    Bf16* working;
    float *first, *second;
    std::int64_t n;
    std::uint32_t first_piece;  // among those of the launch
    std::uint16_t others;       // where its other copies begin
    std::uint8_t copies;        // beyond the first
    bool decays;
  };
  One of[kMostUpdated];
  const float* others[kMostSharedCopies];
  int count;
};
// 32,764 bytes from capability 7.0 on (CUDA C++ Programming Guide, kernel function parameters).
static_assert(sizeof(Table) + sizeof(Adam) + sizeof(GradientFactor) + sizeof(void*) <= 32764,
              "arguments of a launch");

// The last tensor whose first piece is not behind the block's: the same for all its threads.
__device__ const Table::One& tensor_of(const Table& table, unsigned piece) {
  // A binary search: the table lies in constant memory, and all threads take the same way through
  // it.
  int first = 0, last = table.count;
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    if (table.of[middle].first_piece <= piece) {
      first = middle;
    } else {
      last = middle;
    }
  }
  return table.of[first];
}

// update(i, elements): four from i on, or one.
template <class Update>
__device__ void walk_piece(const Table::One& one, unsigned piece, Update update) {
  const std::int64_t begin = std::int64_t{piece - one.first_piece} * kPiece;
  const std::int64_t end = min(begin + kPiece, one.n);
  for (std::int64_t i = begin + std::int64_t{threadIdx.x} * kFour; i < end;
       i += std::int64_t{kThreads} * kFour) {
    if (i + kFour <= end) {
      update(i, std::integral_constant<int, kFour>{});
    } else {
      // The tensor's last elements: fewer than four, so the piece's last thread has them.
      for (std::int64_t j = i; j < end; ++j) update(j, std::integral_constant<int, 1>{});
    }
  }
}

struct Unbias {
  float first, second;
};

// base^exponent by squaring.
__device__ double power(double base, std::uint32_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1U) != 0) result *= base;
    base *= base;
  }
  return result;
}

// Once a block, in double: in fp32 1 - beta^t would lose digits while t is small.
__device__ Unbias unbias_of(const Adam& a, const StepNumbers* numbers) {
  __shared__ Unbias unbias;
  const std::uint32_t t = numbers->step + 1;
  if (threadIdx.x == 0) unbias.first = static_cast<float>(1 / (1 - power(a.beta1, t)));
  if (threadIdx.x == kWarp) unbias.second = static_cast<float>(1 / (1 - power(a.beta2, t)));
  __syncthreads();
  return unbias;
}

template <int L>
__device__ void load_gradient(const Table& table, const Table::One& one, std::int64_t i,
                              float (&sum)[L]) {
  load<L>(one.gradient + i, sum);
  for (int copy = 0; copy < one.copies; ++copy) {
    float value[L];
    load<L>(table.others[one.others + copy] + i, value);
    for (int k = 0; k < L; ++k) sum[k] += value[k];
  }
}

// The same for all threads.
__device__ float factor_of(const GradientFactor& factor) {
  return factor.found == nullptr ? factor.known : factor.known * *factor.found;
}

template <int L>
__device__ void store_weight(const Table::One& one, std::int64_t i, const float (&weight)[L]) {
  store<L>(one.master + i, weight);
  if (one.working != nullptr) store<L>(one.working + i, weight);
}

template <int L>
__device__ void adamw_some(const Adam& a, const Unbias& unbias, float factor, const Table& table,
                           const Table::One& one, std::int64_t i) {
  // Phase 1: the copies' sum, scaled by the clip factor.
  float g[L], w[L], m[L], v[L];
  load_gradient<L>(table, one, i, g);
  for (int k = 0; k < L; ++k) g[k] *= factor;
  load<L>(one.master + i, w);
  load<L>(one.first + i, m);
  load<L>(one.second + i, v);
  // 1 - beta rounds once, from double: in fp32 it would be 1.7e-4 off at 0.9999. Each moment moves
  // by that share of its distance, so that beta itself is never rounded.
  const auto share1 = static_cast<float>(1 - a.beta1), share2 = static_cast<float>(1 - a.beta2);
  const float decay = one.decays ? a.decay : 1.0F;
  // Phase 2: moments, then the weight. Decay is decoupled from the gradient (AdamW), so it scales
  // the old weight.
  for (int k = 0; k < L; ++k) {
    m[k] += share1 * (g[k] - m[k]);
    v[k] += share2 * (g[k] * g[k] - v[k]);
    w[k] =
        w[k] * decay - a.rate * (m[k] * unbias.first) / (sqrtf(v[k] * unbias.second) + a.epsilon);
  }
  // Phase 3: everything back, the working copy rounded from the new master.
  store<L>(one.first + i, m);
  store<L>(one.second + i, v);
  store_weight<L>(one, i, w);
}

__global__ void adamw_kernel(Adam a, const __grid_constant__ Table table,
                             const StepNumbers* numbers, GradientFactor clipping) {
  const Unbias unbias = unbias_of(a, numbers);
  const float factor = factor_of(clipping);
  const Table::One& one = tensor_of(table, blockIdx.x);
  walk_piece(one, blockIdx.x, [&](std::int64_t i, auto elements) {
    adamw_some<elements.value>(a, unbias, factor, table, one, i);
  });
}

template <int L>
__device__ void sgd_some(const Sgd& s, float factor, const Table& table, const Table::One& one,
                         std::int64_t i) {
  float step[L], w[L];
  load_gradient<L>(table, one, i, step);
  for (int k = 0; k < L; ++k) step[k] *= factor;
  load<L>(one.master + i, w);
  // Decay enters through the gradient, as in torch.optim.SGD: momentum therefore carries it too.
  const float decay = one.decays ? s.decay : 0.0F;
  for (int k = 0; k < L; ++k) step[k] += decay * w[k];
  if (one.first != nullptr) {
    float speed[L];
    load<L>(one.first + i, speed);
    // The buffer is the running step, without dampening.
    for (int k = 0; k < L; ++k) step[k] = s.momentum * speed[k] + step[k];
    store<L>(one.first + i, step);
  }
  for (int k = 0; k < L; ++k) w[k] -= s.rate * step[k];
  store_weight<L>(one, i, w);
}

__global__ void sgd_kernel(Sgd s, const __grid_constant__ Table table, GradientFactor clipping) {
  const float factor = factor_of(clipping);
  const Table::One& one = tensor_of(table, blockIdx.x);
  walk_piece(one, blockIdx.x, [&](std::int64_t i, auto elements) {
    sgd_some<elements.value>(s, factor, table, one, i);
  });
}

// A block's piece: each thread its elements in ascending order, then threads by a tree.
__global__ void square_partials_kernel(const __grid_constant__ Table table, double* partials) {
  const Table::One& one = tensor_of(table, blockIdx.x);
  double sum = 0;
  walk_piece(one, blockIdx.x, [&](std::int64_t i, auto elements) {
    constexpr int L = elements.value;
    float g[L];
    load_gradient<L>(table, one, i, g);
    for (int k = 0; k < L; ++k) sum += static_cast<double>(g[k]) * static_cast<double>(g[k]);
  });
  // A tree of fixed shape: the bits depend on the pieces alone.
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// A block a weight; the pieces as the elements before.
__global__ void sum_of_squares_kernel(const __grid_constant__ Table table, const double* partials,
                                      double* to) {
  const Table::One& one = table.of[blockIdx.x];
  const std::int64_t pieces = (one.n + kPiece - 1) / kPiece;
  double sum = 0;
  for (std::int64_t piece = threadIdx.x; piece < pieces; piece += kThreads)
    sum += partials[one.first_piece + piece];
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) to[blockIdx.x] = sum;
}

// One block. Weights are added one after the other, as the host adds them: by one thread, to which
// the others bring as many at a time as there are threads.
__global__ void clip_factor_kernel(Squares squares, double most, float* factor) {
  __shared__ double brought[kThreads];
  double sum = 0;
  // Phase 1: rounds of as many weights as threads.
  for (std::int64_t first = 0; first < squares.weights; first += kThreads) {
    const std::int64_t weight = first + threadIdx.x;
    // A weight has a part from each replica where the state is divided; its thread adds them in
    // ascending order.
    double own = 0;
    for (int place = 0; place < squares.places && weight < squares.weights; ++place) {
      double piece = 0;
      for (int part = place; part < squares.parts; part += squares.places)
        piece += squares.of[part * squares.weights + weight];
      own += piece;
    }
    brought[threadIdx.x] = own;
    __syncthreads();
    // Phase 2: thread 0 adds in the order of weights, in double.
    const std::int64_t count = min(std::int64_t{kThreads}, squares.weights - first);
    for (int i = 0; threadIdx.x == 0 && i < count; ++i) sum += brought[i];
    __syncthreads();  // read before the next are brought
  }
  if (threadIdx.x != 0) return;
  // The small number keeps a gradient of zero from dividing by zero, as
  // torch.nn.utils.clip_grad_norm_ does.
  const double wanted = most / (sqrt(sum) + 1e-6);
  *factor = static_cast<float>(wanted > 1 ? 1 : wanted);  // of a norm that is no number: none
}

[[maybe_unused]] bool begin_right(const Updated& one) {
  for (int i = 0; i < one.gradients.count; ++i) {
    if (!begins_on_16_bytes(one.gradients.of[i])) return false;
  }
  return begins_on_16_bytes(one.weights.master) && begins_on_16_bytes(one.first) &&
         begins_on_16_bytes(one.second);
}

// launch(table, blocks) of as many parameters as each takes, in order.
template <class Launch>
void in_tables(const std::vector<Updated>& parameters, Launch launch) {
  Table table{};
  std::uint32_t pieces = 0;
  int others = 0;
  const auto finish = [&] {
    if (table.count > 0) launch(table, pieces);
    table.count = 0;
    pieces = 0;
    others = 0;
  };
  for (const Updated& one : parameters) {
    assert(begin_right(one) && "tensors begin on 64 bytes");
    const int more = one.gradients.count - 1;
    // Either limit of the table ends it: its size is that of a kernel's arguments.
    if (table.count == kMostUpdated || others + more > kMostSharedCopies) finish();
    table.of[table.count++] = {one.gradients.of[0],
                               one.weights.master,
                               one.weights.working,
                               one.first,
                               one.second,
                               one.n,
                               pieces,
                               static_cast<std::uint16_t>(others),
                               static_cast<std::uint8_t>(more),
                               one.decays};
    // The first copy is in the tensor's own row; more are rare, and share a list.
    for (int copy = 1; copy <= more; ++copy) table.others[others++] = one.gradients.of[copy];
    pieces += static_cast<std::uint32_t>((one.n + kPiece - 1) / kPiece);
  }
  finish();
}

}  // namespace

void adamw(const Adam& adam, const std::vector<Updated>& parameters, const StepNumbers* numbers,
           const GradientFactor& factor, cudaStream_t stream) {
  in_tables(parameters, [&](const Table& table, std::uint32_t blocks) {
    if (blocks == 0) return;
    adamw_kernel<<<blocks, kThreads, 0, stream>>>(adam, table, numbers, factor);
    check_launch("adamw");
  });
}

void sgd(const Sgd& sgd, const std::vector<Updated>& parameters, const GradientFactor& factor,
         cudaStream_t stream) {
  in_tables(parameters, [&](const Table& table, std::uint32_t blocks) {
    if (blocks == 0) return;
    sgd_kernel<<<blocks, kThreads, 0, stream>>>(sgd, table, factor);
    check_launch("sgd");
  });
}

void sums_of_squares(const std::vector<Updated>& parameters, double* room, double* to,
                     cudaStream_t stream) {
  in_tables(parameters, [&](const Table& table, std::uint32_t blocks) {
    if (blocks > 0) square_partials_kernel<<<blocks, kThreads, 0, stream>>>(table, room);
    const auto count = static_cast<unsigned>(table.count);
    sum_of_squares_kernel<<<count, kThreads, 0, stream>>>(table, room, to);
    check_launch("sums_of_squares");
    to += table.count;
  });
}

std::int64_t square_partials(std::int64_t elements) { return (elements + kPiece - 1) / kPiece; }

void clip_factor(const Squares& squares, double most, float* factor, cudaStream_t stream) {
  clip_factor_kernel<<<1, kThreads, 0, stream>>>(squares, most, factor);
  check_launch("clip_factor");
}

}  // namespace weir::cuda

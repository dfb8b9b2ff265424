// Which layer kind runs which passes. Adding a kind: a file with its passes beside transformer.cpp,
// and a line in each of the visitors below.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "exec/cuda/cuda_stream.hpp"
#include "exec/cuda/cupti/kernel_recording.hpp"
#include "exec/cuda/device_info.hpp"
#include "exec/cuda/driver/memory_pool.hpp"
#include "exec/cuda/driver/stream_handle.hpp"
#include "exec/cuda/epilogues.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/cuda/sm/device_sharing.hpp"
#include "exec/cuda/update.hpp"
#include "exec/device/formats.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// For which share of the device algorithms are chosen: one for all K, unless speed goes before
// equal bits.
int multiprocessors_for_gemms(const BackendRequest& request, const Seat& seat) {
  constexpr int kMostRanks =
      8;  // on one device, for which the choice is meant; more make do with it
  if (request.fastest) return seat.multiprocessors;
  if (request.multiprocessors > 0) return request.multiprocessors;
  const auto split =
      equal_split(seat.device_multiprocessors, kMostRanks, sm_granularity(seat.capability_major));
  return split ? split->size : seat.device_multiprocessors;
}

class CudaBackend : public Backend {
 public:
  // `fixed`: where products are to be timed.
  CudaBackend(const BackendRequest& request, Seat seat, std::shared_ptr<cuda::CudnnLibrary> cudnn,
              std::shared_ptr<KernelWatch> watch, std::shared_ptr<cuda::FixedChoices> fixed)
      : watch_(std::move(watch)),
        seat_(std::move(seat)),
        pool_(seat_.place.device, seat_.devices),
        allocations_(seat_.make_stream_handle(Seat::Use::compute)),
        stream_(seat_.place.device, seat_.make_stream_handle(Seat::Use::compute),
                [this] { return seat_.make_stream_handle(Seat::Use::communication); }),
        matmul_(request.dtype, multiprocessors_for_gemms(request, seat_),
                request.fastest ? cuda::SumOverK::cut : cuda::SumOverK::whole,
                seat_.multiprocessors),
        attention_(cuda::Attention::Choice::best, std::move(cudnn)),
        fixed_(std::move(fixed)) {
    on_.stream = stream_.handle();
    on_.matmul = &matmul_;
    if (request.group != nullptr) {
      on_.group = {.place = request.group->place(),
                   .places = request.group->count(),
                   .divides_rows = request.divides_rows,
                   .stream = on_.stream};
    }
    on_.fused = &attention_;
    stream_.tell(watch_.get());
  }
  // A pool lives on until its last block is released.
  ~CudaBackend() override {
    if (evicted_ != nullptr) pool_.release(evicted_, stream_.handle());
  }

  Stream* stream() override { return &stream_; }
  KernelWatch* kernel_watch() override { return watch_.get(); }

  // On a stream of its own, and there at once: whichever stream uses it first need not wait, and
  // nothing that is already launched is waited for.
  void* allocate(std::int64_t bytes) override {
    if (stream_.capturing())
      throw RunFailed("a repeated step asks for device memory that the first step did not need");
    void* block = pool_.allocate(bytes, allocations_.get());
    CUDA_CHECK(cudaStreamSynchronize(allocations_.get()));
    return block;
  }
  void release(void* block, std::int64_t) noexcept override {
    pool_.release(block, stream_.handle());
  }

  HostMemory host_memory(std::int64_t bytes) override {
    void* data = nullptr;
    CUDA_CHECK(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocPortable));
    return {static_cast<std::byte*>(data),
            [](std::byte* block) noexcept { CUDA_CHECK_NOEXCEPT(cudaFreeHost(block)); }};
  }

  void prepare(std::span<const Layer> layers, std::int64_t batch,
               std::int64_t seq_length) override {
    CUDA_CHECK(cudaSetDevice(seat_.place.device));
    for (const Layer& layer : layers) needs_.cover(cuda::prepare(layer, batch, seq_length, on_));
    if (fixed_) time_products(layers, batch, seq_length);
  }
  std::int64_t scratch_bytes() const override { return needs_.bytes(); }
  void use_scratch(const Tensor& scratch) override { on_.use(scratch.data, needs_); }
  void connect(TensorLinks& links) override { on_.group.links = &links; }

  // There when this returns: a step may be launched on any stream.
  void begin_step(std::uint32_t step) override {
    CUDA_CHECK(cudaSetDevice(seat_.place.device));  // one thread serves all ranks
    cuda::begin_step(step, on_.numbers, stream_.handle());
    finish();
  }
  void forward(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cuda::forward(shape, call, on_); });
  }
  void backward_input(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cuda::backward_input(shape, call, on_); });
  }
  void backward_weight(const LayerCall& call) override {
    visit_kernels(*call.layer, [&](const auto& shape) { cuda::backward_weight(shape, call, on_); });
  }
  void update(std::span<const UpdateCall> calls) override { cuda::update(calls, on_); }
  double sum_of_squares(std::span<const Tensor> gradients, std::int64_t elements) override {
    return cuda::sum_of_squares(gradients, elements, on_);
  }
  std::int64_t squares_room(std::int64_t elements) const override {
    return cuda::squares_room(elements);
  }
  void launch_squares(const SquaresCall& call, Stream& on) override {
    cuda::squares(call, dynamic_cast<const CudaStream&>(on).handle());
  }
  void launch_factor(const FactorCall& call) override { cuda::factor(call, on_); }
  void launch_sums(const OrderedSums& sums, Stream& on) override {
    cuda::ordered_sums(sums, dynamic_cast<const CudaStream&>(on).handle());
  }
  void finish() override { CUDA_CHECK(cudaStreamSynchronize(stream_.handle())); }
  void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
    copy(to.data, from, bytes, cudaMemcpyHostToDevice);
  }
  void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
    copy(to, from.data, bytes, cudaMemcpyDeviceToHost);
  }
  void put_zeros(const Tensor& to) override {
    CUDA_CHECK(cudaMemsetAsync(to.data, 0, static_cast<std::size_t>(to.bytes), stream_.handle()));
    finish();
  }
  void evict_caches() override;
  [[nodiscard]] std::optional<DeviceUse> device_use() const override;

 private:
  // Ranks of equal shares take what the first of them has found.
  void time_products(std::span<const Layer> layers, std::int64_t batch, std::int64_t seq_length) {
    // One rank times at a time: ranks beside each other on a device would measure each other.
    const std::scoped_lock lock(fixed_->mutex);
    try {
      cuda::LaunchTimer timer(seat_.place.device, stream_.handle());
      // Offered first, as only prepared products are timed.
      for (const Layer& layer : layers) {
        if (const auto* block = std::get_if<TransformerShape>(&layer.shape))
          cuda::offer_gelu_gradient(*block, batch, seq_length, matmul_);
      }
      matmul_.keep_fastest(timer, *fixed_);
      // The contest between fused and separate epilogues comes last: both sides then run their
      // fastest product.
      for (const Layer& layer : layers) {
        if (const auto* block = std::get_if<TransformerShape>(&layer.shape))
          cuda::keep_faster_epilogues(*block, batch, seq_length, matmul_, timer, *fixed_);
      }
    } catch (const std::bad_alloc&) {  // the library's own order stays
      untimed_ = "products are not timed: the device has no memory for their operands";
    }
  }
  void copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind) {
    CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream_.handle()));
    finish();
  }

  std::shared_ptr<KernelWatch>
      watch_;  // of all ranks' backends, which end in no order; null: kernels are not recorded
  Seat seat_;  // outlives the streams made from it, and stays where it is
  MemoryPool pool_;
  StreamHandle allocations_;
  CudaStream stream_;
  cuda::Matmul matmul_;
  cuda::Attention attention_;
  std::shared_ptr<cuda::FixedChoices> fixed_;  // of all ranks; null: products are not timed
  std::string untimed_;                        // why not, where they were to be
  cuda::ScratchNeeds needs_;
  cuda::Workbench on_;
  void* evicted_ = nullptr;  // of the pool; written to empty the caches
  std::size_t evicted_bytes_ = 0;
};

void CudaBackend::evict_caches() {
  if (evicted_ == nullptr) {
    int cache = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, seat_.place.device));
    evicted_bytes_ = 8 * static_cast<std::size_t>(cache);
    evicted_ = pool_.allocate(static_cast<std::int64_t>(evicted_bytes_), stream_.handle());
  }
  // One write empties the cache. The others give the host time to launch all of the pass that is to
  // be timed: some 25 launches of 5 us, while at 4 TB/s eight times a cache of 60 MiB are written
  // in 0.13 ms.
  constexpr int kWrites = 4;
  for (int i = 0; i < kWrites; ++i)
    CUDA_CHECK(cudaMemsetAsync(evicted_, 0, evicted_bytes_, stream_.handle()));
}

std::optional<DeviceUse> CudaBackend::device_use() const {
  CUDA_CHECK(cudaSetDevice(seat_.place.device));
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return DeviceUse{.sharing = seat_.label,
                   .device = seat_.place.device,
                   .multiprocessors = seat_.multiprocessors,
                   .ranks = seat_.place.groups,
                   .pool_peak = pool_.peak(),
                   .pool_reserved = pool_.reserved(),
                   .device_used = Bytes(static_cast<std::int64_t>(total - free)),
                   .attention = attention_.label(),
                   .products = untimed_.empty() ? matmul_.remarks() : untimed_};
}

void require_device_for(const BackendRequest& request) {
  if (const auto formats = formats_instead_of(request.dtype, BackendKind::cuda)) {
    throw UsageError(fmt::format("the cuda backend computes in {}, the plan asks for {}", *formats,
                                 to_string(request.dtype)));
  }
  const CudaFacts facts = cuda_facts();
  if (!facts.device) throw MissingComponent(fmt::format("backend cuda: {}", facts.why));
  require_format(request.dtype, *facts.device);
}

}  // namespace

void require_format(Dtype dtype, const CudaDevice& device) {
  if (dtype == Dtype::bf16 && device.major < 8) {
    throw UsageError(fmt::format("bf16 needs compute capability 8.0; {} has {}.{}: use fp32",
                                 device.name, device.major, device.minor));
  }
}

BackendFactory cuda_backends() {
  // std::function copies what it holds, and the copies must divide a device only once: so the
  // sharing is shared.
  struct Shared {
    DeviceSharing devices;
    cuda::CudnnLibraries cudnn;  // plans outlive a run
    std::shared_ptr<cuda::FixedChoices> fixed = std::make_shared<cuda::FixedChoices>();
    std::weak_ptr<KernelWatch>
        watch;  // of the run that records kernels now, whose ranks one thread makes
  };
  const auto shared = std::make_shared<Shared>();
  return [shared](const BackendRequest& request) -> std::unique_ptr<Backend> {
    require_device_for(request);
    std::shared_ptr<KernelWatch> watch;
    if (request.kernels) {
      watch = shared->watch.lock();
      if (!watch) shared->watch = watch = make_kernel_watch();
    }
    // The seat comes before the library: cuDNN's plans are made for one share of a device.
    Seat seat = shared->devices.seat(request.rank, request.ranks,
                                     request.processes ? RanksAre::processes : RanksAre::threads);
    auto library = shared->cudnn.of_this_thread({seat.place.device, seat.groups, seat.place.group});
    return std::make_unique<CudaBackend>(request, std::move(seat), std::move(library),
                                         std::move(watch),
                                         request.fastest ? shared->fixed : nullptr);
  };
}

}  // namespace weir

// A move-only owner of one C handle: released once, empty after a move. The handles of CUDA,
// cuBLASLt, cuDNN and NCCL are all made from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace weir {

template <class Handle, void (*kRelease)(Handle) noexcept>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, Handle{});
    }
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  [[nodiscard]] Handle get() const { return handle_; }
  [[nodiscard]] explicit operator bool() const { return handle_ != Handle{}; }
  void reset() noexcept {
    if (handle_ != Handle{}) kRelease(std::exchange(handle_, Handle{}));
  }

 private:
  Handle handle_{};
};

}  // namespace weir

// What Weir needs of one PyTorch profiler (Kineto) file: the GPU kernels with when they were
// launched, and the marks that say what the launching code was doing. The file is streamed; what is
// kept is 32 bytes a kernel. A file of a run without GPUs has the CPU's operators and gloo's
// messages in the place of kernels.
//
// Times are nanoseconds on the file's own clock: since its baseTimeNanoseconds (0 in older files,
// whose times are absolute). CPU marks and GPU kernels of one file share that clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/words/units.hpp"

namespace weir {

// `send_recv` is NCCL's, whose kernels do both at once; `send` and `receive` are gloo's.
enum class KernelKind : std::uint8_t { compute, send_recv, send, receive, collective };

struct KinetoKernel {
  Nanoseconds start{0}, end{0};  // on the GPU; of gloo's messages: posted, and waited for
  Nanoseconds launched{0};       // on the CPU; of operators: their start
  std::int32_t thread = 0;       // that launched it: index in order of appearance
  KernelKind kind = KernelKind::compute;
};

enum class MarkKind : std::uint8_t { step, action, forward, backward, optimizer, send, receive };

// A record_function range on the CPU. Backward kernels are launched by other threads while the
// range is open.
struct KinetoMark {
  Nanoseconds start{0}, end{0};
  MarkKind kind = MarkKind::action;
  std::string name;  // without its prefix: "2F0" of PP:2F0, "7" of ProfilerStep#7 and of
                     // ScheduleGPipe's "Forward 7", "Adam.step" of Optimizer.step#...
};

struct KinetoIdentity {
  std::optional<std::int32_t> rank, world_size;  // of distributedInfo
};

struct KinetoEvents {
  std::string file;
  KinetoIdentity identity;
  std::string device;  // of deviceProperties: "Tesla V100-DGXS-32GB"; empty: the file has none
  std::int64_t base_ns = 0;
  std::vector<KinetoKernel> kernels;  // ordered by launch
  std::vector<KinetoMark> marks;      // ordered by start, the longer first
  std::int64_t kernels_in_file =
      0;                 // those launched before recording began are not among `kernels`
  bool on_host = false;  // no GPU: `kernels` are operators of the CPU and gloo's messages
  std::vector<std::int64_t>
      marked_by;  // threads that opened a ProfilerStep (indices as in KinetoKernel)
};

// Reads no further than to the end of distributedInfo, which recent files have at their head.
[[nodiscard]] KinetoIdentity read_kineto_identity(const std::filesystem::path& file);

// Reads .json or .json.gz. Throws InputError: no valid JSON or gzip, no traceEvents, an event
// without its times.
[[nodiscard]] KinetoEvents read_kineto_events(const std::filesystem::path& file);

}  // namespace weir

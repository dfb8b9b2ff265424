// Threads that take the places of processes, and their ends.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/threads/threaded_run.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/cores.hpp"
#include "exec/device/free_memory.hpp"
#include "exec/processes/process_grid.hpp"
#include "exec/processes/process_run.hpp"
#include "exec/processes/threads/thread_group.hpp"
#include "exec/processes/threads/thread_links.hpp"
#include "exec/rank/rehearsal.hpp"
#include "exec/run/run.hpp"
#include "exec/threads/team.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

class ThreadedRun {
 public:
  ThreadedRun(const ResolvedPlan& loaded, const RunOptions& options, const Backends& backends)
      : loaded_(loaded),
        options_(options),
        backends_(backends),
        grid_(loaded.plan, loaded.program.shape().ranks),
        group_(grid_.processes(), available_cores()),
        links_(loaded.program, grid_.places * grid_.replicas, !group_.oversubscribed()),
        errors_(static_cast<std::size_t>(grid_.processes())) {
    group_.on_stop([this] { links_.stop(); });
  }

  RunResult execute() {
    static_cast<void>(factory_of(options_.backend, backends_));
    require_trainable(loaded_, Replicas::many, options_.backend);
    rehearse_all();
    Team threads(grid_.processes(), [this](int index) { work(index); });
    threads.join();
    // The rank that failed first speaks: the others were stopped because of it.
    if (const std::optional<int> failed = group_.failed()) rethrow(*failed);
    return std::move(result_);
  }

 private:
  // Before anything is allocated: what all threads' steps take together is there.
  void rehearse_all() const {
    const auto there = free_memory();
    if (!there) return;
    CountedBlocks blocks(*there);
    for (int pipeline = 0; pipeline < grid_.places * grid_.replicas; ++pipeline) {
      for (const Rank rank : loaded_.program.ranks()) rehearse(loaded_, rank, blocks);
    }
  }

  void work(int index) {
    const std::unique_ptr<Processes> own = group_.member(index);
    try {
      RunOptions asked = options_;
      if (index != 0) {  // one process hears its signals once, and says a thing once
        asked.stop = nullptr;
        asked.note = asked.fault = [](const std::string&) {};
      }
      RunResult made = run_as_process(loaded_, asked, backends_, *own, links_.of(*own));
      if (index == 0) result_ = std::move(made);
      group_.leave();
    } catch (...) {  // it has concluded
      errors_[static_cast<std::size_t>(index)] = std::current_exception();
    }
  }

  [[noreturn]] void rethrow(int failed) const {
    const std::exception_ptr error = errors_[static_cast<std::size_t>(failed)];
    try {
      std::rethrow_exception(error);
    } catch (const RunFailed& told) {
      throw RunFailed(place_of_thread(failed) + told.what());
    }
  }

  // "replica 1, tensor 0, ", as far as there are several: its rank and action follow.
  [[nodiscard]] std::string place_of_thread(int index) const {
    std::string place;
    if (grid_.replicas > 1) place += fmt::format("replica {}, ", grid_.replica(index));
    if (grid_.places > 1) place += fmt::format("tensor {}, ", grid_.place(index));
    return place;
  }

  const ResolvedPlan& loaded_;
  const RunOptions& options_;
  const Backends& backends_;
  ProcessGrid grid_;
  ThreadGroup group_;
  ThreadLinks links_;
  std::vector<std::exception_ptr> errors_;  // by thread
  RunResult result_;
};

}  // namespace

RunResult run_in_one_process(const ResolvedPlan& loaded, const RunOptions& options,
                             const Backends& backends) {
  const bool alone = loaded.plan.tp == 1 && loaded.plan.dp == 1;
  // Only copies of a pipeline on the CPU need threads that stand in for processes.
  if (alone || options.backend != BackendKind::cpu) return run(loaded, options, backends);
  if (options.kernels) {
    throw UsageError("kernels: what a GPU runs is recorded; the cpu backend has no GPU");
  }
  return ThreadedRun(loaded, options, backends).execute();
}

}  // namespace weir

// What programs that are compiled with later headers ask for and glibc 2.28 does not have:
// tools/older_glibc.py puts it into each of them.
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int64_t second = 1'000'000'000;  // ns

int64_t now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * second + time.tv_nsec;
}

// A part of a wait, by the wall clock, which is all that these waits had. Of a second at most, so
// that a clock that is set forward ends a part alone; one that is set back lengthens the part in
// which it is set, by as much.
struct Part {
  timespec end;
  bool is_last;
};

Part next_part(clockid_t clock, const timespec& end) {
  const int64_t left = end.tv_sec * second + end.tv_nsec - now(clock);
  const int64_t until = now(CLOCK_REALTIME) + std::clamp<int64_t>(left, 0, second);
  return {.end = {.tv_sec = until / second, .tv_nsec = until % second}, .is_last = left <= second};
}

}  // namespace

// The names are glibc's and the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*,readability-identifier-naming)
extern "C" {

// 2.30. A condition's wait may end for no reason, and so may a part of it.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* end) {
  const Part part = next_part(clock, *end);
  const int result = pthread_cond_timedwait(condition, mutex, &part.end);
  return result == ETIMEDOUT && !part.is_last ? 0 : result;
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* end) noexcept {
  while (true) {
    const Part part = next_part(clock, *end);
    const int result = pthread_mutex_timedlock(mutex, &part.end);
    if (result != ETIMEDOUT || part.is_last) return result;
  }
}

// 2.32: whether locks and atomic operations may be left out. That they may not is always right.
char __libc_single_threaded = 0;

// 2.33: until then the headers made these of functions that are told which `struct stat` is meant.
constexpr int version_of_stat = 1;  // the kernel's, on x86-64
int __xstat(int version, const char* path, struct stat* found);
int __lxstat(int version, const char* path, struct stat* found);
int __fxstat(int version, int file, struct stat* found);
int __fxstat64(int version, int file, struct stat64* found);

int stat(const char* path, struct stat* found) noexcept {
  return __xstat(version_of_stat, path, found);
}

int lstat(const char* path, struct stat* found) noexcept {
  return __lxstat(version_of_stat, path, found);
}

int fstat(int file, struct stat* found) noexcept { return __fxstat(version_of_stat, file, found); }

int fstat64(int file, struct stat64* found) noexcept {
  return __fxstat64(version_of_stat, file, found);
}

// 2.34: from then on glibc runs a program's initialisers by itself; before, it was given a function
// that did. A shared library has no such start, and no such list.
using Initialise = void(int, char**, char**);
extern Initialise* const __init_array_start[] __attribute__((weak, visibility("hidden")));
extern Initialise* const __init_array_end[] __attribute__((weak, visibility("hidden")));

static void initialise_all(int count, char** arguments, char** environment) {
  for (auto one = __init_array_start; one != __init_array_end; ++one) {
    (*one)(count, arguments, environment);
  }
}

using Main = int(int, char**, char**);
int __real___libc_start_main(Main* main, int count, char** arguments, Initialise* initialise,
                             void (*end)(), void (*end_of_loader)(), void* end_of_stack);
int __wrap___libc_start_main(Main* main, int count, char** arguments, Initialise*, void (*end)(),
                             void (*end_of_loader)(), void* end_of_stack) {
  return __real___libc_start_main(main, count, arguments, initialise_all, end, end_of_loader,
                                  end_of_stack);
}

// 2.36
uint32_t arc4random() noexcept {
  uint32_t drawn = 0;
  if (getentropy(&drawn, sizeof drawn) != 0) std::abort();
  return drawn;
}
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl*,readability-identifier-naming)

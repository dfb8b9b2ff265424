// The rules of a Landlock ruleset, and its enforcement: the C library has no functions for them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/confine.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::uint64_t kReading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kWriting = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                   LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                   LANDLOCK_ACCESS_FS_MAKE_REG;
// Handled and granted to nothing: programs, devices, sockets, pipes, links.
constexpr std::uint64_t kNever = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr std::uint64_t kTruncating = std::uint64_t{1} << 14;  // of the third version on

// Which machine this is, and the day where it is.
constexpr std::array kOfTheMachine{"/proc/cpuinfo", "/proc/meminfo",           "/proc/stat",
                                   "/proc/locks",   "/sys/devices/system/cpu", "/etc/localtime",
                                   "/dev/urandom"};

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) static_cast<void>(::close(number_));
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void missing(const std::string& what) {
  throw MissingComponent(
      "serve: " + what + ": " + std::generic_category().message(errno) +
      "; requests are held to the folder by Landlock, which Linux has since 5.13");
}

void allow(const Descriptor& rules, const Descriptor& place, std::uint64_t access) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = place.number();
  if (::syscall(SYS_landlock_add_rule, rules.number(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    missing("cannot add a rule");
}

// A link in the folder's place would lead elsewhere: it is refused.
void allow_folder(const Descriptor& rules, const std::filesystem::path& folder,
                  std::uint64_t access) {
  const Descriptor place(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (place.number() < 0)
    throw InputError(folder.string(), "", std::generic_category().message(errno));
  allow(rules, place, access);
}

}  // namespace

void confine(const std::filesystem::path& readable, const std::filesystem::path& writable) {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) missing("cannot ask for its version");
  const std::uint64_t writing = kWriting | (version >= 3 ? kTruncating : 0);
  landlock_ruleset_attr handled{};
  handled.handled_access_fs = kReading | writing | kNever;
  const Descriptor rules(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0)));
  if (rules.number() < 0) missing("cannot make rules");
  allow_folder(rules, readable, kReading);
  allow_folder(rules, writable, kReading | writing);
  for (const char* path : kOfTheMachine) {
    const Descriptor place(::open(path, O_PATH | O_CLOEXEC));
    // What is not there needs no rule. A file has no access that is of folders alone.
    if (place.number() < 0) continue;
    const bool folder = std::filesystem::is_directory(path);
    allow(rules, place, folder ? kReading : LANDLOCK_ACCESS_FS_READ_FILE);
  }
  // Else only root may: no program that is started gains rights, and none is.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) missing("cannot give up rights");
  if (::syscall(SYS_landlock_restrict_self, rules.number(), 0) != 0) missing("cannot begin");
}

}  // namespace weir

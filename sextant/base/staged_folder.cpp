#include "sextant/base/staged_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace sx {
namespace {

Error taken(const fs::path& target) {
  return {ErrorKind::kInvalid, fmt::format("{} is there already", target.string()),
          target.string()};
}

Error os_trouble(const char* what, const fs::path& path, int code) {
  return {ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(code)),
          path.string()};
}

}  // namespace

Result<StagedFolder> StagedFolder::create(const fs::path& target) {
  std::error_code code;
  StagedFolder staged;
  staged.target_ = fs::absolute(target, code).lexically_normal();
  if (!staged.target_.has_filename()) staged.target_ = staged.target_.parent_path();
  if (fs::exists(staged.target_, code) && !fs::is_empty(staged.target_, code))
    return taken(staged.target_);
  staged.temp_ = staged.target_.parent_path() / (".tmp-" + staged.target_.filename().string());
  SX_TRY_VOID(make_dirs(staged.temp_));
  staged.lock_ = open(staged.temp_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (staged.lock_ < 0) return os_trouble("open", staged.temp_, errno);
  if (flock(staged.lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(std::exchange(staged.lock_, -1));
    return Error{ErrorKind::kIo,
                 fmt::format("another program is writing {}", staged.target_.string()),
                 staged.target_.string()};
  }
  // What an attempt that died has left.
  for (fs::directory_iterator it(staged.temp_, code), end; !code && it != end; it.increment(code))
    fs::remove_all(it->path(), code);
  if (code) return os_trouble("empty", staged.temp_, code.value());
  return staged;
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : target_(std::move(other.target_)),
      temp_(std::move(other.temp_)),
      lock_(std::exchange(other.lock_, -1)) {}

StagedFolder::~StagedFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;
  fs::remove_all(temp_, ignored);
  close(lock_);
}

Result<void> StagedFolder::commit() {
  SX_TRY_VOID(sync_dir(temp_));
  // Takes the place of nothing or of an empty folder.
  if (rename(temp_.c_str(), target_.c_str()) != 0) {
    const int code = errno;
    if (code == EEXIST || code == ENOTEMPTY || code == ENOTDIR) return taken(target_);
    return os_trouble("rename", temp_, code);
  }
  close(std::exchange(lock_, -1));
  return sync_dir(target_.parent_path());
}

}  // namespace sx

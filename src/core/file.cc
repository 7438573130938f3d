// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/file.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lumen/core/error.h"

namespace lumen {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& what,
                       int error) {
  std::string message = path + ": " + what + " failed: " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) {
    message += "; free some space or choose another folder";
  }
  throw IoError(message);
}

// Calls again when a signal interrupted.
template <class Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : value_(Retry(
            [&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
    if (value_ < 0) Fail(path, "opening", errno);
  }
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// Returns 0, or errno with *written bytes done.
int WriteAll(int descriptor, std::string_view text, int64_t* written) {
  *written = 0;
  while (!text.empty()) {
    const ssize_t count =
        Retry([&] { return write(descriptor, text.data(), text.size()); });
    if (count < 0) return errno;
    *written += count;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

std::string FolderOf(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

void Sync(int descriptor, const std::string& path) {
  if (Retry([&] { return fsync(descriptor); }) == 0) return;
  // Devices, and folders of some network file systems, have nothing to sync.
  if (errno != EINVAL && errno != EROFS) Fail(path, "fsync", errno);
}

// A process that is being killed lets go within moments; another run does not.
void Lock(int descriptor, const std::string& path) {
  constexpr int kTries = 100;
  for (int i = 0; flock(descriptor, LOCK_EX | LOCK_NB) != 0; ++i) {
    // Some network file systems have no locks: then nobody can tell.
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (i == kTries) {
      throw IoError(path +
                    ": another process is writing to it; wait for that run to "
                    "end, or use another folder (--out)");
    }
    usleep(100'000);
  }
}

// Where a regular file of `size` bytes has its last newline: the number of
// bytes up to and with it.
int64_t WholeLines(int descriptor, const std::string& path, int64_t size) {
  char block[4096];
  int64_t end = size;
  while (end > 0) {
    const int64_t begin = std::max<int64_t>(0, end - int64_t{sizeof(block)});
    const auto length = static_cast<size_t>(end - begin);
    const ssize_t count =
        Retry([&] { return pread(descriptor, block, length, begin); });
    if (count < 0) Fail(path, "reading", errno);
    if (static_cast<size_t>(count) != length) Fail(path, "reading", EIO);
    const void* newline = memrchr(block, '\n', length);
    if (newline != nullptr) {
      return begin + (static_cast<const char*>(newline) - block) + 1;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

std::string ReadFile(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  std::string text;
  char block[1 << 16];
  while (true) {
    const ssize_t count =
        Retry([&] { return read(file.get(), block, sizeof(block)); });
    if (count < 0) Fail(path, "reading", errno);
    if (count == 0) return text;
    text.append(block, static_cast<size_t>(count));
  }
}

std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

void WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::string temporary = TemporaryPath(path);
  {
    const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    int64_t written = 0;
    if (const int error = WriteAll(file.get(), text, &written)) {
      unlink(temporary.c_str());
      Fail(path, "writing", error);
    }
  }
  CommitFile(temporary, path);
}

void CommitFile(const std::string& temporary, const std::string& path) {
  try {
    FsyncPath(temporary);
    if (rename(temporary.c_str(), path.c_str()) != 0) {
      Fail(path, "renaming from " + temporary, errno);
    }
  } catch (const IoError&) {
    unlink(temporary.c_str());
    throw;
  }
  FsyncDirectory(FolderOf(path));
}

void FsyncPath(const std::string& path) {
  Sync(Descriptor(path, O_RDONLY).get(), path);
}

void FsyncDirectory(const std::string& folder) {
  Sync(Descriptor(folder, O_RDONLY | O_DIRECTORY).get(), folder);
}

AppendFile::AppendFile(const std::string& path) : path_(path) {
  Descriptor file(path, O_RDWR | O_CREAT | O_APPEND);
  Lock(file.get(), path);
  struct stat status;
  if (fstat(file.get(), &status) != 0) Fail(path, "stat", errno);
  if (S_ISREG(status.st_mode)) {
    const int64_t whole = WholeLines(file.get(), path, status.st_size);
    bytes_dropped_ = status.st_size - whole;
    if (bytes_dropped_ > 0 &&
        Retry([&] { return ftruncate(file.get(), whole); }) != 0) {
      Fail(path, "cutting off a torn last line", errno);
    }
  }
  descriptor_ = file.Release();
}

bool AppendFile::IsInUse(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool in_use =
      flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);
  return in_use;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_dropped_(other.bytes_dropped_) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_dropped_, other.bytes_dropped_);
  return *this;
}

void AppendFile::Append(std::string_view line) {
  CHECK(line.find('\n') == line.npos) << "a newline inside: " << line;
  std::string text(line);
  text.push_back('\n');
  int64_t written = 0;
  const int error = WriteAll(descriptor_, text, &written);
  if (error == 0) return;
  struct stat status;
  if (written > 0 && (fstat(descriptor_, &status) != 0 ||
                      ftruncate(descriptor_, status.st_size - written) != 0)) {
    Fail(path_, "appending a line (half of it stays at the end)", error);
  }
  Fail(path_, "appending a line", error);
}

void AppendFile::Sync() { lumen::Sync(descriptor_, path_); }

}  // namespace lumen

// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lumen/core/error.h"

namespace lumen {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& what,
                       int error) {
  throw IoError(path + ": " + what + ": " + std::strerror(error));
}

int Open(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) Fail(path, "cannot open", errno);
  return descriptor;
}

// 0, or an errno.
int WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
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

void DropTornLine(int descriptor, const std::string& path) {
  off_t end = lseek(descriptor, 0, SEEK_END);
  const off_t size = end;
  char last = '\n';
  while (end > 0) {
    if (pread(descriptor, &last, 1, end - 1) != 1) {
      Fail(path, "cannot read", errno);
    }
    if (last == '\n') break;
    --end;
  }
  if (end != size && ftruncate(descriptor, end) != 0) {
    Fail(path, "cannot drop the torn last line", errno);
  }
}

}  // namespace

std::string ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(path, "cannot open", errno);
  if (std::filesystem::is_directory(path)) Fail(path, "cannot read", EISDIR);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) Fail(path, "cannot read", errno);
  return text.str();
}

void WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  const int descriptor = Open(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  int error = WriteAll(descriptor, text);
  if (error == 0 && fsync(descriptor) != 0) error = errno;
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    unlink(temporary.c_str());
    Fail(path, "cannot write", error);
  }
  const auto folder = std::filesystem::path(path).parent_path();
  FsyncDirectory(folder.empty() ? "." : folder.string());
}

void FsyncDirectory(const std::string& path) {
  const int descriptor = Open(path, O_RDONLY | O_DIRECTORY);
  const int error = fsync(descriptor) != 0 ? errno : 0;
  close(descriptor);
  // Some network file systems cannot sync a folder; that is not our failure.
  if (error != 0 && error != EINVAL) Fail(path, "cannot sync", error);
}

AppendFile::AppendFile(const std::string& path)
    : path_(path), descriptor_(Open(path, O_RDWR | O_CREAT | O_APPEND)) {
  try {
    Lock(descriptor_, path_);
    DropTornLine(descriptor_, path_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

AppendFile::~AppendFile() { close(descriptor_); }

void AppendFile::AppendLine(std::string_view line) {
  const off_t before = lseek(descriptor_, 0, SEEK_END);
  std::string text(line);
  text += '\n';
  const int error = WriteAll(descriptor_, text);
  if (error == 0) return;
  // Half a line is worse than none.
  if (ftruncate(descriptor_, before) != 0) Fail(path_, "cannot repair", errno);
  Fail(path_, "cannot append", error);
}

int64_t PeakRssBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace lumen

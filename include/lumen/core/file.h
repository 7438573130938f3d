// SPDX-License-Identifier: Apache-2.0
// Files that survive crashes and full disks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lumen {

// All throw IoError "path: what failed: reason".

std::string ReadFile(const std::string& path);
// Temporary name in the same folder, fsync, rename, fsync of the folder:
// readers see the old file or the new one. The temporary is removed on failure.
void WriteFileAtomically(const std::string& path, std::string_view text);
void FsyncDirectory(const std::string& path);

// Append-only lines. A last line torn by a crash (without a newline) is dropped
// at opening; every line is one write. Holds a lock: opening a file that another
// process appends to waits ten seconds for it, then throws IoError. Movable only by pointer; not
// thread-safe.
class AppendFile {
 public:
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  void AppendLine(std::string_view line);

 private:
  std::string path_;
  int descriptor_;
};

// Largest resident set of this process so far.
int64_t PeakRssBytes();

}  // namespace lumen

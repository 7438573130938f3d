// SPDX-License-Identifier: Apache-2.0
// Files that survive a crash: whole or absent, never half. All functions throw
// IoError "path: what failed: reason".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lumen {

// The whole file.
std::string ReadFile(const std::string& path);

// Replaces the file in one step: a temporary file beside it is written, synced
// and renamed, and the folder synced. On failure (disk full) the temporary file
// is removed and the old file is as before. Not for two writers of one path.
void WriteFileAtomically(const std::string& path, std::string_view text);

// The two steps of an atomic replacement, for files that a library writes:
// write `temporary`, then CommitFile(temporary, path) syncs it, renames it and
// syncs the folder. `temporary` must lie in the same folder as `path`; it is
// removed on failure.
std::string TemporaryPath(const std::string& path);
void CommitFile(const std::string& temporary, const std::string& path);

// Wait until the contents of a file, or the names in a folder, are on disk.
void FsyncPath(const std::string& path);
void FsyncDirectory(const std::string& folder);

// A file of lines that only grows, such as metrics.jsonl. Lines of several
// processes do not mix, as each is one write(2) to the end. Movable; not
// thread-safe.
class AppendFile {
 public:
  // Opens or creates the file. A last line without its newline was torn by a
  // crash and is cut off. Holds a lock: a file that another process appends to
  // is waited for ten seconds, then IoError is thrown.
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  // Writes the line and a newline. A line that cannot be written whole (disk
  // full) is cut off again before IoError is thrown. REQUIRES: no newline in
  // `line`.
  void Append(std::string_view line);
  // Waits until all lines are on disk.
  void Sync();

  const std::string& path() const { return path_; }
  // True when somebody has this file open as an AppendFile now. False where the
  // file system has no locks, and for a file that is not there.
  static bool IsInUse(const std::string& path);
  // Bytes of the torn line that opening cut off.
  int64_t bytes_dropped() const { return bytes_dropped_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_dropped_ = 0;
};

}  // namespace lumen

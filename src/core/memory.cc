// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace lumen {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The number after `key` in a file of "key value" lines, or `otherwise`.
int64_t NumberAfter(const std::string& path, const std::string& key,
                    int64_t otherwise) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return otherwise;
}

// The number that a file consists of; `otherwise` without one ("max").
int64_t Number(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// What one control group leaves; page cache it would give back counts as free.
int64_t Left(const std::string& limit_path, const std::string& usage_path,
             const std::string& statistics_path, const std::string& cache_key) {
  const int64_t limit = Number(limit_path, kUnlimited);
  if (limit >= kUnlimited / 2) return kUnlimited;
  const int64_t usage = Number(usage_path, 0);
  const int64_t cache = NumberAfter(statistics_path, cache_key, 0);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, usage - cache));
}

// What the control groups of this process leave, from its own up to the root.
int64_t LeftByControlGroups() {
  int64_t left = kUnlimited;
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" in version 2, "4:memory:/path" in version 1.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == controllers.npos) continue;
    const std::filesystem::path root =
        unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::filesystem::path group = line.substr(second + 1);
    while (true) {
      const std::string folder = (root / group.relative_path()).string() + "/";
      left = std::min(
          left, unified ? Left(folder + "memory.max", folder + "memory.current",
                               folder + "memory.stat", "inactive_file")
                        : Left(folder + "memory.limit_in_bytes",
                               folder + "memory.usage_in_bytes",
                               folder + "memory.stat", "total_inactive_file"));
      if (!group.has_relative_path()) break;
      group = group.parent_path();
    }
  }
  return left;
}

}  // namespace

int64_t PeakRssBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t AvailableMemoryBytes() {
  const int64_t kib = NumberAfter("/proc/meminfo", "MemAvailable:", 0);
  return std::min(kib * 1024, LeftByControlGroups());
}

}  // namespace lumen

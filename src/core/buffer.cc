// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace lumen::internal {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;  // on x86-64

// Huge pages pay from a few of them on; below that they only round memory up.
bool WantsHugePages(int64_t bytes) { return bytes >= 4 * kHugePage; }

int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void* MapPages(int64_t bytes) {
  // Also keeps the sums below from overflowing.
  if (bytes <= 0 || bytes > int64_t{1} << 60) throw std::bad_alloc();
  const bool huge = WantsHugePages(bytes);
  const int64_t used = RoundUp(bytes, sysconf(_SC_PAGESIZE));
  const int64_t reserved = huge ? used + kHugePage : used;
  void* data = mmap(nullptr, static_cast<size_t>(reserved),
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (!huge) return data;
  // Give back what lies before the first huge page boundary and after the end.
  char* begin = static_cast<char*>(data);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const int64_t before = static_cast<int64_t>(-address % kHugePage);
  const int64_t after = kHugePage - before;
  if (before > 0) munmap(begin, static_cast<size_t>(before));
  if (after > 0) {
    munmap(begin + before + used, static_cast<size_t>(after));
  }
  madvise(begin + before, static_cast<size_t>(used), MADV_HUGEPAGE);
  return begin + before;
}

void UnmapPages(void* data, int64_t bytes) {
  munmap(data, static_cast<size_t>(RoundUp(bytes, sysconf(_SC_PAGESIZE))));
}

}  // namespace lumen::internal

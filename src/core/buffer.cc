// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/buffer.h"

#include <sys/mman.h>

#include <new>

namespace lumen::internal {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// Huge pages pay from a few of them on; below that they only round memory up.
bool WantsHugePages(int64_t bytes) { return bytes >= 4 * kHugePage; }

int64_t Reserved(int64_t bytes) {
  return WantsHugePages(bytes) ? bytes + kHugePage : bytes;
}

}  // namespace

void* MapPages(int64_t bytes) {
  const int64_t reserved = Reserved(bytes);
  void* data = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (!WantsHugePages(bytes)) return data;
  // Give back what lies before the first huge page boundary and after the end.
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const int64_t page = 4096;
  const int64_t used = (bytes + page - 1) / page * page;
  if (aligned > begin) munmap(data, aligned - begin);
  const uintptr_t end = (begin + reserved + page - 1) / page * page;
  if (end > aligned + used) {
    munmap(reinterpret_cast<void*>(aligned + used), end - aligned - used);
  }
  void* result = reinterpret_cast<void*>(aligned);
  madvise(result, used, MADV_HUGEPAGE);
  return result;
}

void UnmapPages(void* data, int64_t bytes) { munmap(data, bytes); }

}  // namespace lumen::internal

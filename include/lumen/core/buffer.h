// SPDX-License-Identifier: Apache-2.0
// A large array: 64-byte aligned, zero-filled by the system, on huge pages
// where it grants them, returned to the system at once when freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace lumen {

namespace internal {
// Zero-filled. Throws std::bad_alloc with nothing leaked.
void* MapPages(int64_t bytes);
void UnmapPages(void* data, int64_t bytes);
}  // namespace internal

// Movable, not copyable. T is trivial. Untouched pages cost no memory. A size
// below zero or beyond memory throws std::bad_alloc.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t size)
      : data_(size != 0 ? static_cast<T*>(internal::MapPages(Checked(size)))
                        : nullptr),
        size_(size) {}
  ~Buffer() {
    if (data_) internal::UnmapPages(data_, Bytes(size_));
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  int64_t size() const { return size_; }
  int64_t bytes() const { return Bytes(size_); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, static_cast<size_t>(size_)}; }
  std::span<const T> span() const {
    return {data_, static_cast<size_t>(size_)};
  }

 private:
  static int64_t Bytes(int64_t size) {
    return size * static_cast<int64_t>(sizeof(T));
  }
  // Zero, which cannot be mapped, for a size whose bytes do not fit int64_t.
  static int64_t Checked(int64_t size) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return size <= kMost / static_cast<int64_t>(sizeof(T)) ? Bytes(size) : 0;
  }

  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace lumen

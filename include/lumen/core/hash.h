// SPDX-License-Identifier: Apache-2.0
// XXH64 of byte streams, through libxxhash.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lumen {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(const void* data, int64_t bytes);
  void Update(std::string_view text) {
    Update(text.data(), static_cast<int64_t>(text.size()));
  }
  template <class T>
  void Update(std::span<T> values) {
    Update(values.data(), static_cast<int64_t>(values.size_bytes()));
  }
  uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 16 lower-case hex digits.
std::string HexDigest(uint64_t digest);
// Streams the file. Throws IoError.
uint64_t HashFile(const std::string& path);

}  // namespace lumen

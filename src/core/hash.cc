// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/hash.h"

#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "lumen/core/error.h"

namespace lumen {

struct Hasher::State {
  XXH64_state_t* xxh = XXH64_createState();
  ~State() { XXH64_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH64_reset(state_->xxh, 0);
}
Hasher::~Hasher() = default;

void Hasher::Update(const void* data, int64_t bytes) {
  XXH64_update(state_->xxh, data, static_cast<size_t>(bytes));
}

uint64_t Hasher::Digest() const { return XXH64_digest(state_->xxh); }

std::string HexDigest(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(digest));
  return text;
}

uint64_t HashFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw IoError(path + ": opening failed: " + std::strerror(errno));
  }
  std::vector<char> block(int64_t{1} << 20);
  Hasher hasher;
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hasher.Update(block.data(), file.gcount());
  }
  if (file.bad()) {
    throw IoError(path + ": reading failed: " + std::strerror(errno));
  }
  return hasher.Digest();
}

}  // namespace lumen

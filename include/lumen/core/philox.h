// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 of Salmon et al. 2011, "Parallel
// Random Numbers: As Easy as 1, 2, 3". Nothing is stored between calls, so a
// draw depends on what it is for and never on which rank or thread asks.
#pragma once

#include <array>
#include <cstdint>

namespace lumen {

// What a random number is for. Values are part of the mathematics: never reuse
// or renumber them. Layers add their index in the model to the key (`item`).
enum class Stream : uint32_t {
  kOrder = 1,
  kMask = 2,
  kInit = 3,
  kDropout = 4,
  kAugment = 5,
  kSynthetic = 6,
  kGrow = 7,
  kSplit = 8,
};

inline std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Philox(seed, stream, item, epoch, sample, element): the key mixes seed,
// stream and item (a layer or parameter index), the counter holds the rest.
// `element` counts blocks of four 32-bit words.
struct RandomKey {
  std::array<uint32_t, 2> key;
};

inline RandomKey NewRandomKey(uint64_t seed, Stream stream, uint32_t item) {
  const auto mixed =
      Philox({static_cast<uint32_t>(stream), item, 0x4C756D65, 0x6E},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {{mixed[0], mixed[1]}};
}

inline std::array<uint32_t, 4> Draw(RandomKey key, uint32_t epoch,
                                    uint64_t sample, uint32_t element) {
  return Philox({element, static_cast<uint32_t>(sample),
                 static_cast<uint32_t>(sample >> 32), epoch},
                key.key);
}

// Uniform in [0, 1) with 24 bits: exact in fp32.
inline float UnitFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

}  // namespace lumen

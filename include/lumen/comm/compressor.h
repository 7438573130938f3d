// SPDX-License-Identifier: Apache-2.0
// Compressors: which entries of a vector are worth sending. The codec decides
// how they look on the wire.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lumen/core/parallel.h"
#include "lumen/core/schema.h"

namespace lumen::comm {

// max(1, round(density * n)) for n > 0, at most n; 0 for n = 0. Half rounds up.
int64_t KeptEntries(double density, int64_t n);

// Positions of exactly k entries of largest magnitude, ascending; ties at the
// threshold go to the lowest index. With fewer than k nonzeros, zeros fill up
// by the same rule (the codec does not send them). Compares the bits of |x|, so
// NaN sorts above infinity and nothing depends on the FPU. Cost: a look at
// every 64th entry (256th of a million) and one pass over all of them on all
// threads; four passes on one thread when very many entries share the
// threshold. Memory in proportion to k. REQUIRES: 0 <= k <= x.size() < 2^31.
void SelectLargest(const Parallel& parallel, std::span<const float> x,
                   int64_t k, std::vector<int32_t>* position);

// Immutable, so thread-safe.
class Compressor {
 public:
  virtual ~Compressor() = default;
  // Entries sent of a shard's bucket of n, and of an owner's region of n. Pure
  // functions of n.
  virtual int64_t KeptOfShard(int64_t n) const = 0;
  virtual int64_t KeptOfRegion(int64_t n) const = 0;
  // Exactly `kept` positions, ascending; a pure function of (x, kept).
  virtual void Select(const Parallel& parallel, std::span<const float> x,
                      int64_t kept, std::vector<int32_t>* position) const = 0;
};

// One row per compressor type.
struct CompressorRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  std::unique_ptr<Compressor> (*create)(const Json& spec);
};
std::span<const CompressorRow> Compressors();
std::vector<Variant> CompressorVariants();
// `spec` is the resolved "compressor" object.
std::unique_ptr<Compressor> NewCompressor(const Json& spec);

}  // namespace lumen::comm

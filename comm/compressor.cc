// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/compressor.h"

#include <glog/logging.h>

#include "compressor_rows.h"

namespace lumen::comm {
namespace {

constexpr CompressorRow kRows[] = {
    {"topk", kTopKKeys,
     "exactly the largest entries of each bucket of each shard",
     NewTopKCompressor},
};

}  // namespace

std::span<const CompressorRow> Compressors() { return kRows; }

std::vector<Variant> CompressorVariants() {
  std::vector<Variant> variants;
  for (const CompressorRow& row : kRows) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

std::unique_ptr<Compressor> NewCompressor(const Json& spec) {
  for (const CompressorRow& row : kRows) {
    if (row.type == spec.at("type").text()) return row.create(spec);
  }
  LOG(FATAL) << "a resolved spec names a known compressor";
}

}  // namespace lumen::comm

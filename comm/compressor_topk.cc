// SPDX-License-Identifier: Apache-2.0
// Exactly k entries of largest magnitude (Aji and Heafield 2017, "Sparse
// Communication for Distributed Gradient Descent").
#include "compressor_rows.h"

namespace lumen::comm {
namespace {

class TopK final : public Compressor {
 public:
  TopK(double density, double out_density)
      : density_(density), out_density_(out_density) {}
  int64_t KeptOfShard(int64_t n) const override {
    return KeptEntries(density_, n);
  }
  int64_t KeptOfRegion(int64_t n) const override {
    return KeptEntries(out_density_, n);
  }
  void Select(const Parallel& parallel, std::span<const float> x, int64_t kept,
              std::vector<int32_t>* position) const override {
    SelectLargest(parallel, x, kept, position);
  }

 private:
  double density_;
  double out_density_;
};

}  // namespace

std::unique_ptr<Compressor> NewTopKCompressor(const Json& spec) {
  const double density = spec.at("density").number();
  const Json& out = spec.at("out_density");
  return std::make_unique<TopK>(density,
                                out.is_null() ? density : out.number());
}

}  // namespace lumen::comm

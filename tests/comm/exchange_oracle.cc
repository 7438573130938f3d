// SPDX-License-Identifier: Apache-2.0
#include "exchange_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "lumen/comm/codec.h"
#include "lumen/comm/compressor.h"
#include "lumen/core/philox.h"
#include "mpi_main.h"

namespace lumen::comm {
namespace {

using Vector = std::vector<float>;

sparse::Compute NewCompute(int threads) {
  return {&sparse::Kernels(sparse::DetectIsa()), Parallel(threads)};
}

// Level by level: (0,1), (2,3), ...; a lone last one is passed up.
Vector TreeSum(std::vector<Vector> level) {
  while (level.size() > 1) {
    std::vector<Vector> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      Vector sum = level[i];
      if (i + 1 < level.size()) {
        for (size_t j = 0; j < sum.size(); ++j) sum[j] += level[i + 1][j];
      }
      next.push_back(std::move(sum));
    }
    level = std::move(next);
  }
  return level.at(0);
}

// The k largest of x[begin, end), by sorting.
std::vector<int32_t> Largest(const Vector& x, int64_t begin, int64_t end,
                             int64_t k) {
  std::vector<int32_t> order(end - begin);
  std::iota(order.begin(), order.end(), static_cast<int32_t>(begin));
  const auto before = [&](int32_t a, int32_t b) {
    const float left = std::fabs(x[a]);
    const float right = std::fabs(x[b]);
    return left != right ? left > right : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

// Codes the entries of [begin, end) in `position`; moves what is seen from x
// to `seen`.
void Code(const std::string& values, const std::vector<int32_t>& position,
          int64_t begin, int64_t end, Vector* x, Vector* seen) {
  SparseSlice slice;
  slice.length = end - begin;
  for (const int32_t p : position) {
    if (p < begin || p >= end) continue;
    slice.position.push_back(static_cast<int32_t>(p - begin));
    slice.value.push_back((*x)[p]);
  }
  std::vector<std::byte> bytes;
  EncodeSlice(ParseValueCode(values), &slice, &bytes);
  for (size_t i = 0; i < slice.position.size(); ++i) {
    const int64_t p = begin + slice.position[i];
    (*x)[p] -= slice.value[i];
    (*seen)[p] += slice.value[i];
  }
}

double SquareSum(const Vector& x, const std::vector<Bucket>& buckets) {
  double sum = 0;
  for (const Bucket& b : buckets) {
    sum += sparse::Kernels(sparse::Isa::kScalar)
               .sum_of_squares(x.data() + b.begin, b.size());
  }
  return sum;
}

void Clip(Vector* x, const std::vector<Bucket>& buckets, double limit) {
  const double norm = std::sqrt(SquareSum(*x, buckets));
  if (limit == 0 || !(norm > limit)) return;
  const auto factor = static_cast<float>(limit / norm);
  for (float& v : *x) v *= factor;
}

}  // namespace

std::string Case::Text() const {
  return type + " " + values + " n=" + std::to_string(parameters) +
         " S=" + std::to_string(shards) + " bucket=" + std::to_string(bucket) +
         " density=" + std::to_string(density) +
         " clip=" + std::to_string(clip_norm) +
         " threads=" + std::to_string(threads);
}

Json ExchangeSpec(const Case& c) {
  Json spec = Json::Object();
  for (const ExchangeRow& row : Exchanges()) {
    if (row.type != c.type) continue;
    spec = Resolve(Json::Object(), kCommonExchangeKeys);
    const Json own = Resolve(Json::Object(), row.keys);
    for (const auto& [name, value] : own.members()) spec.Set(name, value);
  }
  spec.Set("type", Json(c.type));
  spec.Set("bucket", Json(c.bucket));
  if (c.regions) spec.Set("regions", Json(c.regions));
  if (c.type != "dense") {
    Json compressor = spec.at("compressor");
    compressor.Set("density", Json(c.density));
    if (c.out_density > 0) compressor.Set("out_density", Json(c.out_density));
    spec.Set("compressor", compressor);
    Json codec = spec.at("codec");
    codec.Set("values", Json(c.values));
    spec.Set("codec", codec);
  }
  return spec;
}

ExchangeOptions Case::Options() const {
  ExchangeOptions options;
  options.shards = shards;
  options.parameters = parameters;
  const int64_t small = parameters > 20 ? 7 : 0;
  const int64_t tensors[] = {parameters - small, small};
  options.buckets = NewBuckets(tensors, bucket);
  options.spec = ExchangeSpec(*this);
  options.clip_norm = clip_norm;
  return options;
}

std::vector<float> TestGradient(int step, int shard, int64_t n) {
  Vector x(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto draw =
        Philox({static_cast<uint32_t>(i), static_cast<uint32_t>(step),
                static_cast<uint32_t>(shard), 77},
               {8, 9});
    if (draw[0] % 10 == 0) continue;
    const float u = 2 * UnitFloat(draw[1]) - 1;
    x[i] = u * u * u * 0.1f;
  }
  return x;
}

std::vector<std::vector<float>> TestGradients(int step, const Case& c) {
  std::vector<Vector> gradient;
  for (int s = 0; s < c.shards; ++s) {
    gradient.push_back(TestGradient(step, s, c.parameters));
  }
  return gradient;
}

std::vector<uint32_t> BitsOf(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

Oracle::Oracle(const Case& c)
    : residual(c.shards, Vector(c.parameters)),
      owner_residual(c.parameters),
      case_(c),
      options_(c.Options()) {}

std::vector<float> Oracle::Step(std::vector<Vector> gradient) {
  return case_.type == "dense" ? DenseStep(std::move(gradient))
                               : SplitStep(std::move(gradient));
}

std::vector<float> Oracle::DenseStep(std::vector<Vector> gradient) const {
  Vector sum = TreeSum(std::move(gradient));
  Clip(&sum, options_.buckets, case_.clip_norm);
  return sum;
}

std::vector<float> Oracle::SplitStep(std::vector<Vector> gradient) {
  const double out_density =
      case_.out_density > 0 ? case_.out_density : case_.density;
  const auto regions_of = [&](const Bucket& b) {
    if (case_.regions) return case_.regions;
    const int64_t shards = case_.shards;
    const int64_t long_slices =
        KeptEntries(case_.density, b.size()) / 64 / shards * shards;
    return std::max(shards, std::min<int64_t>(long_slices, 64));
  };
  std::vector<Vector> sent(case_.shards, Vector(case_.parameters));
  for (int s = 0; s < case_.shards; ++s) {
    Vector& a = gradient[s];
    Clip(&a, options_.buckets, case_.clip_norm / std::sqrt(case_.shards));
    for (size_t i = 0; i < a.size(); ++i) a[i] += residual[s][i];
    for (const Bucket& b : options_.buckets) {
      const auto chosen =
          Largest(a, b.begin, b.end, KeptEntries(case_.density, b.size()));
      const auto bounds = RegionBounds(b.size(), regions_of(b));
      for (size_t g = 0; g + 1 < bounds.size(); ++g) {
        Code(case_.values, chosen, b.begin + bounds[g], b.begin + bounds[g + 1],
             &a, &sent[s]);
      }
    }
  }
  residual = std::move(gradient);
  Vector total = TreeSum(sent);
  for (size_t i = 0; i < total.size(); ++i) total[i] += owner_residual[i];
  Vector out(case_.parameters);
  for (const Bucket& b : options_.buckets) {
    const auto bounds = RegionBounds(b.size(), regions_of(b));
    for (size_t g = 0; g + 1 < bounds.size(); ++g) {
      const int64_t begin = b.begin + bounds[g];
      const int64_t end = b.begin + bounds[g + 1];
      const auto chosen =
          Largest(total, begin, end, KeptEntries(out_density, end - begin));
      Code(case_.values, chosen, begin, end, &total, &out);
    }
  }
  owner_residual = std::move(total);
  return out;
}

Engine::Engine(const Case& c) : case_(c), compute_(NewCompute(c.threads)) {
  for (const ExchangeRow& row : Exchanges()) {
    if (row.type != c.type) continue;
    exchange_ = row.create(c.Options(), World(), compute_);
  }
}

std::vector<int> Engine::hosted() const {
  return HostedShards(case_.shards, World()->ranks(), World()->rank());
}

bool Engine::Step(const std::vector<Vector>& gradient, Vector* sum) {
  const ExchangeOptions options = case_.Options();
  const auto buckets = static_cast<int>(options.buckets.size());
  for (const int s : hosted()) {
    const auto target = exchange_->Gradient(s);
    std::copy(gradient[s].begin(), gradient[s].end(), target.begin());
    for (int b = buckets - 1; b >= 0; --b) exchange_->Add(s, b);
  }
  sum->assign(case_.parameters, 12345.0f);
  int next = 0;
  const bool finite =
      exchange_->Reduce([&](int bucket, std::span<const float> values) {
        EXPECT_EQ(bucket, next++);
        ASSERT_EQ(std::ssize(values), options.buckets[bucket].size());
        std::copy(values.begin(), values.end(),
                  sum->begin() + options.buckets[bucket].begin);
      });
  EXPECT_EQ(next, finite ? buckets : 0);
  finite ? exchange_->Commit() : exchange_->Discard();
  return finite;
}

std::vector<float> Engine::OwnerState() {
  Vector whole(World()->rank() == 0 ? case_.parameters : 0);
  exchange_->GatherOwnerState(whole);
  return whole;
}

}  // namespace lumen::comm

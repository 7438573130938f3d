// SPDX-License-Identifier: Apache-2.0
// Times a step of each exchange on random gradients and counts its bytes.
//
//   mpirun -np 4 comm_exchange_bench [parameters] [shards] [density] [threads]
//
// Verifies that all ranks get the same sums before it prints anything.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "lumen/comm/codec.h"
#include "lumen/comm/compressor.h"
#include "lumen/comm/exchange.h"
#include "lumen/core/error.h"
#include "lumen/core/hash.h"
#include "lumen/core/philox.h"

namespace lumen::comm {
namespace {

constexpr int kSteps = 12;

struct Sizes {
  int64_t parameters;
  int shards;
  double density;
  int threads;
};

ExchangeOptions Options(const ExchangeRow& row, const Sizes& sizes,
                        std::string_view values) {
  ExchangeOptions options;
  options.shards = sizes.shards;
  options.parameters = sizes.parameters;
  options.buckets = NewBuckets(std::span(&sizes.parameters, 1), 4194304);
  options.spec = Resolve(Json::Object(), kCommonExchangeKeys);
  const Json own = Resolve(Json::Object(), row.keys);
  for (const auto& [name, value] : own.members()) {
    options.spec.Set(name, value);
  }
  options.spec.Set("type", Json(std::string(row.type)));
  if (Json* compressor = options.spec.Find("compressor")) {
    compressor->Set("density", Json(sizes.density));
    options.spec.Find("codec")->Set("values", Json(std::string(values)));
  }
  return options;
}

void Fill(int step, int shard, const Parallel& parallel, std::span<float> out) {
  const int64_t n = std::ssize(out);
  parallel.For((n + 4095) / 4096, [&](int64_t piece) {
    for (int64_t i = piece * 4096; i < std::min(n, (piece + 1) * 4096); ++i) {
      const auto draw =
          Philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                  static_cast<uint32_t>(step), static_cast<uint32_t>(shard)},
                 {1, 2});
      const float u = UnitFloat(draw[0]) + UnitFloat(draw[1]) - 1.0f;
      out[i] = u * u * u;
    }
  });
}

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void Run(const ExchangeRow& row, const Sizes& sizes, std::string_view values,
         Communicator* world) {
  const ExchangeOptions options = Options(row, sizes, values);
  const sparse::Compute compute{&sparse::Kernels(sparse::DetectIsa()),
                                Parallel(sizes.threads)};
  const auto exchange = row.create(options, world, compute);
  const auto hosted = HostedShards(sizes.shards, world->ranks(), world->rank());
  const int last = static_cast<int>(options.buckets.size()) - 1;
  std::vector<double> add_seconds, reduce_seconds;
  Hasher hasher;
  int64_t bytes = 0;
  for (int step = 0; step < kSteps; ++step) {
    double add = 0;
    for (const int shard : hosted) {
      Fill(step, shard, compute.parallel, exchange->Gradient(shard));
      const double start = Now();
      for (int b = last; b >= 0; --b) exchange->Add(shard, b);
      add += Now() - start;
    }
    world->Barrier();
    const int64_t before = world->bytes_sent();
    const double start = Now();
    double hashing = 0;
    if (!exchange->Reduce([&](int, std::span<const float> sum) {
          const double hash_start = Now();
          hasher.Update(sum);
          hashing += Now() - hash_start;
        })) {
      throw CommError("bench: the gradients are finite by construction");
    }
    exchange->Commit();
    add_seconds.push_back(add);
    reduce_seconds.push_back(Now() - start - hashing);
    bytes = world->bytes_sent() - before;
  }
  const uint64_t digest = hasher.Digest();
  for (const auto& other :
       world->AllGather(std::as_bytes(std::span(&digest, 1)))) {
    if (*reinterpret_cast<const uint64_t*>(other.data()) != digest) {
      throw CommError("bench: the ranks got different sums");
    }
  }
  if (world->rank() != 0) return;
  const double p = world->ranks();
  double bound = 2 * 4.0 * static_cast<double>(sizes.parameters) * (p - 1) / p;
  if (row.type != "dense") {
    const auto k =
        static_cast<double>(KeptEntries(sizes.density, sizes.parameters));
    bound = (p - 1) / p * k * EntryBits(ParseValueCode(values), sizes.density) /
            8 * (static_cast<double>(hosted.size()) + 1);
  }
  std::printf(
      "%-6s %-5s Add %8.1f ms, Reduce %8.1f ms (median), %11lld bytes sent by "
      "rank 0, %.3f of the bound, hash %s\n",
      std::string(row.type).c_str(), std::string(values).c_str(),
      1e3 * Median(add_seconds), 1e3 * Median(reduce_seconds),
      static_cast<long long>(bytes),
      bound > 0 ? static_cast<double>(bytes) / bound : 0,
      HexDigest(digest).c_str());
}

int Main(int argc, char** argv) {
  const auto world = Communicator::NewWorld(&argc, &argv);
  const Sizes sizes = {argc > 1 ? std::atoll(argv[1]) : 4'000'000,
                       argc > 2 ? std::atoi(argv[2]) : world->ranks(),
                       argc > 3 ? std::atof(argv[3]) : 0.01,
                       argc > 4 ? std::atoi(argv[4]) : 1};
  if (world->rank() == 0) {
    std::printf(
        "%lld parameters, %d shards, %d ranks, %d threads, density %g\n",
        static_cast<long long>(sizes.parameters), sizes.shards, world->ranks(),
        sizes.threads, sizes.density);
  }
  for (const ExchangeRow& row : Exchanges()) {
    if (row.keys.empty()) {
      Run(row, sizes, "", world.get());
      continue;
    }
    for (const std::string_view values : ValueCodeNames()) {
      Run(row, sizes, values, world.get());
    }
  }
  return 0;
}

}  // namespace
}  // namespace lumen::comm

int main(int argc, char** argv) {
  try {
    return lumen::comm::Main(argc, argv);
  } catch (const lumen::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

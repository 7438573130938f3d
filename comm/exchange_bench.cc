// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/exchange_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lumen/comm/codec.h"
#include "lumen/comm/compressor.h"
#include "lumen/core/buffer.h"
#include "lumen/core/error.h"
#include "lumen/core/hash.h"
#include "lumen/core/philox.h"
#include "passes.h"
#include "transfer.h"

namespace lumen::comm {
namespace {

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Heavy-tailed, every position alike.
void FillGradient(const sparse::Compute& compute, int shard,
                  std::span<float> out) {
  ForPieces(compute, std::ssize(out), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 2) {
      const auto draw =
          Philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                  static_cast<uint32_t>(shard), 0},
                 {1, 2});
      for (int64_t j = i; j < std::min(end, i + 2); ++j) {
        const auto at = static_cast<size_t>(2 * (j - i));
        const float u = UnitFloat(draw[at]) + UnitFloat(draw[at + 1]) - 1.0f;
        out[static_cast<size_t>(j)] = u * u * u;
      }
    }
  });
}

// Each rank's values; the largest per place.
std::vector<double> SlowestOf(std::span<const double> mine,
                              Communicator* communicator) {
  std::vector<double> slowest(mine.begin(), mine.end());
  for (const auto& bytes : communicator->AllGather(std::as_bytes(mine))) {
    const auto* other = reinterpret_cast<const double*>(bytes.data());
    for (size_t i = 0; i < slowest.size(); ++i) {
      slowest[i] = std::max(slowest[i], other[i]);
    }
  }
  return slowest;
}

double Quantile(std::vector<double> sorted, double q) {
  std::sort(sorted.begin(), sorted.end());
  const auto rank = std::ceil(q * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

BenchSpread Spread(const std::vector<double>& seconds) {
  return {1e3 * Quantile(seconds, 0), 1e3 * Quantile(seconds, 0.5),
          1e3 * Quantile(seconds, 0.99), 1e3 * Quantile(seconds, 1)};
}

double Bound(const ExchangeBenchOptions& options, int ranks) {
  const double others = (ranks - 1.0) / ranks;
  const auto n = static_cast<double>(options.elements);
  const Json* compressor = options.spec.Find("compressor");
  if (!compressor) return 2 * 4 * n * others;
  const auto rule = NewCompressor(*compressor);
  const auto code =
      ParseValueCode(options.spec.at("codec").at("values").text());
  const auto bytes = [&](int64_t kept) {
    const auto k = static_cast<double>(kept);
    return k * EntryBits(code, k / n) / 8;
  };
  const int hosted = (options.shards + ranks - 1) / ranks;
  return others * (hosted * bytes(rule->KeptOfShard(options.elements)) +
                   bytes(rule->KeptOfRegion(options.elements)));
}

class Bench {
 public:
  Bench(const ExchangeBenchOptions& options, Communicator* communicator,
        const sparse::Compute& compute)
      : options_(options),
        communicator_(communicator),
        compute_(compute),
        hosted_(HostedShards(options.shards, communicator->ranks(),
                             communicator->rank())),
        gradient_(options.elements),
        weights_(options.elements) {
    ExchangeOptions exchange;
    exchange.shards = options.shards;
    exchange.parameters = options.elements;
    exchange.buckets = NewBuckets(std::span(&options.elements, 1),
                                  options.spec.at("bucket").integer());
    exchange.spec = options.spec;
    exchange_ = NewExchange(exchange, communicator, compute);
    buckets_ = exchange.buckets;
    FillGradient(compute_, hosted_[0], gradient_.span());
  }

  ExchangeBenchResult Run() {
    Exchange();  // warms up
    Clear();
    for (int round = 0; round < options_.rounds; ++round) {
      if (options_.wire_only) {
        WireRound();
      } else {
        for (int i = 0; i < options_.exchanges; ++i) Exchange();
      }
      passes_.push_back(Pass());
      allreduce_ = std::min(allreduce_, AllReduce());
    }
    return Result();
  }

 private:
  void Clear() {
    seconds_.clear();
    for (auto& part : parts_) part.clear();
  }

  // From here on every step is timed.
  void AddAll() {
    for (const int shard : hosted_) {
      for (int b = static_cast<int>(buckets_.size()) - 1; b >= 0; --b) {
        exchange_->Add(shard, b);
      }
    }
  }

  void Fill() {
    for (const int shard : hosted_) {
      const auto to = exchange_->Gradient(shard);
      ForPieces(compute_, std::ssize(to), [&](int64_t begin, int64_t end) {
        std::copy(gradient_.data() + begin, gradient_.data() + end,
                  to.data() + begin);
      });
    }
  }

  // Applies the sum: weights -= sum, where it is not zero.
  void Apply(int bucket, std::span<const float> sum) {
    float* w = weights_.data() + buckets_[static_cast<size_t>(bucket)].begin;
    if (const auto touched = exchange_->touched()) {
      for (const int32_t p : *touched) w[p] -= sum[static_cast<size_t>(p)];
    } else {
      AddTo(compute_, sum, std::span(w, sum.size()));
    }
  }

  void Reduce(bool hashes) {
    const bool finite =
        exchange_->Reduce([&](int bucket, std::span<const float> sum) {
          if (hashes) {
            hasher_.Update(sum);
          } else {
            Apply(bucket, sum);
          }
        });
    if (!finite) {
      throw CommError("bench: the gradients are finite by construction");
    }
  }

  void Note(double seconds, const ExchangeTimes& before) {
    const ExchangeTimes after = exchange_->times();
    seconds_.push_back(seconds);
    parts_[0].push_back(after.select - before.select);
    parts_[1].push_back(after.encode - before.encode);
    parts_[2].push_back(after.send - before.send);
    parts_[3].push_back(after.decode - before.decode);
  }

  void Exchange() {
    Fill();
    communicator_->Barrier();
    const int64_t bytes_before = communicator_->bytes_sent();
    const ExchangeTimes before = exchange_->times();
    const double began = Now();
    AddAll();
    Reduce(false);
    Note(Now() - began, before);
    bytes_sent_ = communicator_->bytes_sent() - bytes_before;
    if (exchange_->sends_again()) Reduce(true);
    exchange_->Commit();
  }

  void WireRound() {
    Fill();
    AddAll();
    Reduce(true);
    communicator_->Barrier();
    for (int i = 0; i < options_.exchanges; ++i) {
      const ExchangeTimes before = exchange_->times();
      const double began = Now();
      Reduce(false);
      Note(Now() - began, before);
    }
    exchange_->Commit();
  }

  double Pass() {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      communicator_->Barrier();
      const double began = Now();
      AddTo(compute_, gradient_.span(), weights_.span());
      best = std::min(best, Now() - began);
    }
    return best;
  }

  double AllReduce() {
    communicator_->Barrier();
    const double began = Now();
    CheckMpi(MPI_Allreduce(gradient_.data(), weights_.data(),
                           static_cast<int>(options_.elements), MPI_FLOAT,
                           MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    return Now() - began;
  }

  ExchangeBenchResult Result() {
    const uint64_t digest = hasher_.Digest();
    const auto digests =
        communicator_->AllGather(std::as_bytes(std::span(&digest, 1)));
    for (const auto& other : digests) {
      if (other != digests[0]) {
        throw CommError("bench: the ranks got different sums");
      }
    }
    ExchangeBenchResult result;
    result.ms = Spread(SlowestOf(seconds_, communicator_));
    double* const parts[] = {&result.select_ms, &result.encode_ms,
                             &result.send_ms, &result.decode_ms};
    for (size_t i = 0; i < std::size(parts_); ++i) {
      *parts[i] = 1e3 * Quantile(SlowestOf(parts_[i], communicator_), 0.5);
    }
    const double rest[] = {*std::min_element(passes_.begin(), passes_.end()),
                           allreduce_, static_cast<double>(bytes_sent_)};
    const auto slowest = SlowestOf(rest, communicator_);
    result.pass_ms = 1e3 * slowest[0];
    result.allreduce_ms = 1e3 * slowest[1];
    result.bytes_sent = static_cast<int64_t>(slowest[2]);
    result.bound_bytes = Bound(options_, communicator_->ranks());
    result.sum_hash = HexDigest(digest);
    return result;
  }

  ExchangeBenchOptions options_;
  Communicator* communicator_;
  sparse::Compute compute_;
  std::vector<int> hosted_;
  std::vector<Bucket> buckets_;
  Buffer<float> gradient_;
  Buffer<float> weights_;
  std::unique_ptr<comm::Exchange> exchange_;
  Hasher hasher_;
  std::vector<double> seconds_;   // of each exchange
  std::vector<double> parts_[4];  // select, encode, send, decode
  std::vector<double> passes_;
  double allreduce_ = std::numeric_limits<double>::infinity();
  int64_t bytes_sent_ = 0;
};

}  // namespace

ExchangeBenchResult RunExchangeBench(const ExchangeBenchOptions& options,
                                     Communicator* communicator,
                                     const sparse::Compute& compute) {
  if (options.elements < 1 || options.elements >= int64_t{1} << 31) {
    throw SpecError("--elements=" + std::to_string(options.elements) +
                    ": expected 1 to 2^31 - 1, what one MPI_Allreduce takes");
  }
  return Bench(options, communicator, compute).Run();
}

Json DefaultExchangeSpec(const ExchangeRow& row) {
  Json spec = Resolve(Json::Object(), kCommonExchangeKeys);
  const Json own = Resolve(Json::Object(), row.keys);
  for (const auto& [name, value] : own.members()) spec.Set(name, value);
  spec.Set("type", Json(std::string(row.type)));
  return spec;
}

}  // namespace lumen::comm

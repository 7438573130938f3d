// SPDX-License-Identifier: Apache-2.0
// split: sparse reduce-scatter by regions, then all-gather of the regions.
//   1. Per shard and bucket: a = gradient + residual; the k largest entries are
//      coded region by region, the rest and the rounding error stay in a.
//   2. Each owner gets the slices of its regions from every shard, adds them in
//      tree order, adds the owner residual, and codes the k_out largest entries
//      of each region; the rest and the rounding error stay pending.
//   3. The coded regions go to all, who decode the same sum.
// Commit swaps a with the residual and pending with the owner residual.
#include <fmt/format.h>
#include <glog/logging.h>

#include <atomic>
#include <cmath>

#include "exchange_rows.h"
#include "layout.h"
#include "lumen/comm/codec.h"
#include "lumen/core/buffer.h"
#include "lumen/core/error.h"
#include "owner_state.h"
#include "passes.h"
#include "sparse_sum.h"
#include "stop_watch.h"

namespace lumen::comm {
namespace {

using Bytes = std::vector<std::byte>;

// The first byte of every message: the value code, or this.
constexpr std::byte kNotFinite{0xFF};

void Append(const Bytes& from, Bytes* to) {
  to->insert(to->end(), from.begin(), from.end());
}

// Appends all parts; takes no more memory than they need.
void Join(std::span<const Bytes> parts, Bytes* to) {
  size_t size = to->size();
  for (const Bytes& part : parts) size += part.size();
  to->reserve(size);
  for (const Bytes& part : parts) Append(part, to);
}

class SplitExchange final : public Exchange {
 public:
  SplitExchange(const ExchangeOptions& options, Communicator* communicator,
                const sparse::Compute& compute)
      : layout_(options, communicator->ranks()),
        communicator_(communicator),
        compute_(compute),
        compressor_(NewCompressor(options.spec.at("compressor"))),
        code_(ParseValueCode(options.spec.at("codec").at("values").text())),
        shard_limit_(options.clip_norm / std::sqrt(options.shards)) {
    hosted_ = layout_.Hosted(rank());
    for (int64_t s = hosted_.begin; s < hosted_.end; ++s) {
      shards_.emplace_back(layout_);
    }
    owner_residual_ = Buffer<float>(layout_.OwnedSize(rank()));
    pending_ = Buffer<float>(layout_.OwnedSize(rank()));
    sum_ = Buffer<float>(layout_.largest_bucket());
    scratch_.resize(compute_.parallel.threads());
  }

  std::span<float> Gradient(int shard) override {
    return Hosted(shard).gradient.span();
  }

  void Add(int shard, int bucket) override {
    Shard& s = Hosted(shard);
    CHECK(0 <= bucket && bucket < layout_.buckets());
    ++s.added;
    if (shard_limit_ == 0) return Compress(&s, bucket);
    // The norm needs the whole gradient of the shard.
    s.square_sum[bucket] =
        SumOfSquares(compute_, BucketOf(&s.gradient, bucket));
    if (s.added < layout_.buckets()) return;
    double square_sum = 0;
    for (const double sum : s.square_sum) square_sum += sum;
    if (!std::isfinite(square_sum)) {
      finite_ = false;
      return;
    }
    const float factor = ClipFactor(square_sum, shard_limit_);
    if (factor != 1.0f) ScaleBy(compute_, factor, s.gradient.span());
    for (int b = layout_.buckets() - 1; b >= 0; --b) Compress(&s, b);
  }

  bool Reduce(const Sink& sink) override {
    for (const Shard& s : shards_) {
      CHECK_EQ(s.added, layout_.buckets())
          << "every hosted shard adds every bucket once";
    }
    const std::vector<Bytes> slices = SendSlices();
    if (!finite_) return false;
    const Bytes mine = ReduceRegions(slices);
    const std::vector<Bytes> sums = GatherSums(mine);
    if (!finite_) return false;
    message_bytes_ = std::max(message_bytes_,
                              Size(slices) + std::max(sent_bytes_, Size(sums)));
    reduced_ = true;
    HandOut(sums, sink);
    return true;
  }

  void Commit() override {
    CHECK(reduced_) << "only Discard is legal";
    for (Shard& s : shards_) std::swap(s.gradient, s.residual);
    std::swap(pending_, owner_residual_);
    Discard();
  }

  void Discard() override {
    for (Shard& s : shards_) {
      s.added = 0;
      for (Bytes& coded : s.coded) coded.clear();  // their memory is kept
    }
    finite_ = true;
    reduced_ = false;
  }

  std::vector<ExchangeState> ShardState(int shard) override {
    return {{"residual", Hosted(shard).residual.span()}};
  }
  bool has_owner_state() const override { return true; }

  void GatherOwnerState(std::span<float> whole) override {
    GatherOwned(layout_, communicator_, owner_residual_.span(), whole);
  }
  void ScatterOwnerState(std::span<const float> whole) override {
    ScatterOwned(layout_, communicator_, whole, owner_residual_.span());
  }

  bool sends_again() const override { return true; }
  ExchangeTimes times() const override { return times_; }

  int64_t memory_bytes() const override {
    int64_t bytes = owner_residual_.bytes() + pending_.bytes() + sum_.bytes() +
                    message_bytes_;
    for (const Shard& s : shards_) {
      bytes += s.gradient.bytes() + s.residual.bytes() + Size(s.coded);
    }
    for (const SparseSum& sum : scratch_) bytes += sum.memory_bytes();
    return bytes;
  }

 private:
  struct Shard {
    explicit Shard(const Layout& layout)
        : gradient(layout.parameters()),
          residual(layout.parameters()),
          square_sum(layout.buckets()),
          coded(layout.buckets() * layout.ranks()) {}
    Buffer<float> gradient;
    Buffer<float> residual;
    std::vector<double> square_sum;  // of each bucket, for clipping
    std::vector<Bytes> coded;        // [bucket][owner]
    int added = 0;
  };

  int rank() const { return communicator_->rank(); }
  static int64_t Size(const std::vector<Bytes>& messages) {
    int64_t size = 0;
    for (const Bytes& m : messages) size += static_cast<int64_t>(m.capacity());
    return size;
  }

  Shard& Hosted(int shard) {
    CHECK(hosted_.begin <= shard && shard < hosted_.end) << shard;
    return shards_[shard - hosted_.begin];
  }

  std::span<float> BucketOf(Buffer<float>* flat, int b) const {
    const Bucket& bucket = layout_.bucket(b);
    return flat->span().subspan(bucket.begin, bucket.size());
  }

  // Codes the chosen entries of x, subtracts what a decoder will see, and
  // appends the coded slice.
  void CodeAndKeepRest(std::span<const int32_t> position, int64_t origin,
                       std::span<float> x, Bytes* out) const {
    SparseSlice slice;
    slice.length = std::ssize(x);
    slice.position.reserve(position.size());
    slice.value.reserve(position.size());
    for (const int32_t p : position) {
      slice.position.push_back(static_cast<int32_t>(p - origin));
      slice.value.push_back(x[slice.position.back()]);
    }
    EncodeSlice(code_, &slice, out);
    for (size_t i = 0; i < slice.position.size(); ++i) {
      x[slice.position[i]] -= slice.value[i];
    }
  }

  // Step 1 for one bucket: leaves the new residual in the gradient buffer.
  void Compress(Shard* s, int b) {
    const auto a = BucketOf(&s->gradient, b);
    std::vector<int32_t> position;
    {
      const StopWatch watch(&times_.select);
      if (!AddToIsFinite(compute_, BucketOf(&s->residual, b), a)) {
        finite_ = false;
      }
      if (!finite_) return;
      compressor_->Select(compute_.parallel, a,
                          compressor_->KeptOfShard(std::ssize(a)), &position);
    }
    const StopWatch watch(&times_.encode);
    const int64_t regions = layout_.regions(b);
    std::vector<Bytes> coded(regions);
    compute_.parallel.For(regions, [&](int64_t g) {
      const Range region = layout_.region(b, g);
      const auto first =
          std::lower_bound(position.begin(), position.end(), region.begin);
      const auto last = std::lower_bound(first, position.end(), region.end);
      CodeAndKeepRest({first, last}, region.begin,
                      a.subspan(region.begin, region.size()), &coded[g]);
    });
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      const Range owned = layout_.OwnedRegions(b, owner);
      Join(std::span(coded).subspan(owned.begin, owned.size()),
           &s->coded[CodedIndex(b, owner)]);
    }
  }

  size_t CodedIndex(int b, int owner) const {
    return static_cast<size_t>(b) * layout_.ranks() + owner;
  }

  // The message to one owner: by bucket, shard, region.
  Bytes SlicesFor(int owner) const {
    if (!finite_) return {kNotFinite};
    size_t size = 1;
    for (const Shard& s : shards_) {
      for (int b = 0; b < layout_.buckets(); ++b) {
        size += s.coded[CodedIndex(b, owner)].size();
      }
    }
    Bytes message;
    message.reserve(size);
    message.push_back(FirstByte());
    for (int b = 0; b < layout_.buckets(); ++b) {
      for (const Shard& s : shards_) {
        Append(s.coded[CodedIndex(b, owner)], &message);
      }
    }
    return message;
  }

  std::byte FirstByte() const { return static_cast<std::byte>(code_); }

  // Takes note of what the first bytes of all ranks' messages say.
  void CheckFirstBytes(const std::vector<Bytes>& messages) {
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      const Bytes& message = messages[peer];
      if (!message.empty() && message[0] == kNotFinite) {
        finite_ = false;
      } else if (message.empty() || message[0] != FirstByte()) {
        throw CommError(fmt::format(
            "exchange: message of rank {} on {}: no or another value code; "
            "expected {}; do all ranks run the same spec?",
            peer, communicator_->host_of(peer),
            ValueCodes()[static_cast<size_t>(code_)].name));
      }
    }
  }

  // The slices of this rank's regions from every rank. All ranks learn whether
  // some shard was not finite.
  std::vector<Bytes> SendSlices() {
    std::vector<Message> outgoing;
    std::vector<int> sources;
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      if (peer == rank()) continue;
      outgoing.push_back({peer, SlicesFor(peer)});
      sources.push_back(peer);
    }
    sent_bytes_ = 0;
    for (const Message& m : outgoing) sent_bytes_ += std::ssize(m.bytes);
    const StopWatch watch(&times_.send);
    std::vector<Bytes> slices(layout_.ranks());
    slices[rank()] = SlicesFor(rank());
    for (Message& m : communicator_->Exchange(std::move(outgoing), sources)) {
      slices[m.peer] = std::move(m.bytes);
    }
    CheckFirstBytes(slices);
    return slices;
  }

  std::vector<Bytes> GatherSums(const Bytes& mine) {
    const StopWatch watch(&times_.send);
    std::vector<Bytes> sums = communicator_->AllGather(mine);
    CheckFirstBytes(sums);
    return sums;
  }

  // What is left of each message after the first byte.
  static std::vector<std::span<const std::byte>> Payloads(
      const std::vector<Bytes>& messages) {
    std::vector<std::span<const std::byte>> left;
    for (const Bytes& m : messages) left.emplace_back(std::span(m).subspan(1));
    return left;
  }

  void Decode(int peer, int64_t length, std::span<const std::byte>* bytes,
              SparseSlice* slice) const {
    try {
      DecodeSlice(code_, length, bytes, slice);
    } catch (const CommError& error) {
      throw CommError(fmt::format("exchange: message of rank {} on {}: {}",
                                  peer, communicator_->host_of(peer),
                                  error.what()));
    }
  }

  void CheckUsedUp(const std::vector<std::span<const std::byte>>& left) const {
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      if (left[peer].empty()) continue;
      throw CommError(fmt::format(
          "exchange: message of rank {} on {}: {} bytes too many; expected its "
          "end; do all ranks run the same spec?",
          peer, communicator_->host_of(peer), left[peer].size()));
    }
  }

  // Step 2: the message with this rank's coded regions.
  Bytes ReduceRegions(const std::vector<Bytes>& messages) {
    const StopWatch watch(&times_.decode);
    auto left = Payloads(messages);
    std::copy_n(owner_residual_.data(), owner_residual_.size(),
                pending_.data());
    Bytes out = {FirstByte()};
    int64_t first_entry = 0;       // of the bucket in the owned arrays
    const Parallel one_thread(1);  // regions run in parallel
    std::atomic<bool> finite = true;
    for (int b = 0; b < layout_.buckets(); ++b) {
      const Range owned = layout_.OwnedRegions(b, rank());
      // [region][shard]
      std::vector<std::vector<SparseSlice>> slices(owned.size());
      for (auto& of_region : slices) of_region.resize(layout_.shards());
      compute_.parallel.For(layout_.ranks(), [&](int64_t peer) {
        const Range hosted = layout_.Hosted(static_cast<int>(peer));
        for (int64_t s = hosted.begin; s < hosted.end; ++s) {
          for (int64_t i = 0; i < owned.size(); ++i) {
            Decode(static_cast<int>(peer),
                   layout_.region(b, owned.begin + i).size(), &left[peer],
                   &slices[i][s]);
          }
        }
      });
      std::vector<Bytes> coded(owned.size());
      const int64_t origin = layout_.OwnedEntries(b, rank()).begin;
      ForEachOnScratch(owned.size(), [&](int64_t i, SparseSum* sum) {
        const Range region = layout_.region(b, owned.begin + i);
        const auto total = pending_.span().subspan(
            first_entry + region.begin - origin, region.size());
        sum->AddTo(slices[i], total);
        if (!compute_->all_finite(total.data(), std::ssize(total))) {
          finite = false;
          return;
        }
        std::vector<int32_t> position;
        compressor_->Select(one_thread, total,
                            compressor_->KeptOfRegion(region.size()),
                            &position);
        CodeAndKeepRest(position, 0, total, &coded[i]);
      });
      for (const Bytes& region : coded) Append(region, &out);
      first_entry += layout_.OwnedEntries(b, rank()).size();
    }
    CheckUsedUp(left);
    if (!finite) return {kNotFinite};
    return out;
  }

  // body(i, scratch) for i in [0, n), one scratch per thread.
  void ForEachOnScratch(int64_t n,
                        const std::function<void(int64_t, SparseSum*)>& body) {
    const auto lanes = static_cast<int64_t>(scratch_.size());
    compute_.parallel.For(std::min(lanes, n), [&](int64_t lane) {
      for (int64_t i = lane; i < n; i += lanes) body(i, &scratch_[lane]);
    });
  }

  // Step 3.
  void HandOut(const std::vector<Bytes>& messages, const Sink& sink) {
    const StopWatch watch(&times_.decode);
    auto left = Payloads(messages);
    for (int b = 0; b < layout_.buckets(); ++b) {
      const auto sum = sum_.span().first(layout_.bucket(b).size());
      ForPieces(compute_, std::ssize(sum), [&](int64_t begin, int64_t end) {
        std::fill(sum.begin() + begin, sum.begin() + end, 0.0f);
      });
      compute_.parallel.For(layout_.ranks(), [&](int64_t peer) {
        const Range owned = layout_.OwnedRegions(b, static_cast<int>(peer));
        SparseSlice slice;
        for (int64_t g = owned.begin; g < owned.end; ++g) {
          const Range region = layout_.region(b, g);
          const auto part = sum.subspan(region.begin, region.size());
          Decode(static_cast<int>(peer), region.size(), &left[peer], &slice);
          for (size_t i = 0; i < slice.position.size(); ++i) {
            part[slice.position[i]] = slice.value[i];
          }
        }
      });
      sink(b, sum);
    }
    CheckUsedUp(left);
  }

  Layout layout_;
  Communicator* communicator_;
  sparse::Compute compute_;
  std::unique_ptr<Compressor> compressor_;
  ValueCode code_;
  double shard_limit_;  // norm of a shard's gradient; 0: no clipping
  Range hosted_;
  std::vector<Shard> shards_;       // hosted
  Buffer<float> owner_residual_;    // of the owned regions, bucket after bucket
  Buffer<float> pending_;           // its next value
  Buffer<float> sum_;               // of a bucket
  std::vector<SparseSum> scratch_;  // of each thread
  ExchangeTimes times_;
  bool finite_ = true;         // as far as this rank knows
  bool reduced_ = false;       // may Commit follow?
  int64_t sent_bytes_ = 0;     // slices sent in this step
  int64_t message_bytes_ = 0;  // most that messages took together
};

}  // namespace

std::unique_ptr<Exchange> NewSplitExchange(const ExchangeOptions& options,
                                           Communicator* communicator,
                                           const sparse::Compute& compute) {
  return std::make_unique<SplitExchange>(options, communicator, compute);
}

}  // namespace lumen::comm

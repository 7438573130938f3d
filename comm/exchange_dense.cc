// SPDX-License-Identifier: Apache-2.0
// dense: every entry in fp32, bucket by bucket.
//   1. A rank adds up the largest subtrees of the shard tree that it hosts.
//   2. It sends each owner that part of them which the owner's regions cover.
//   3. The owner completes the tree and sends its regions to all.
// The sum lands in the gradient of the first hosted shard. Steps and bytes are
// in comm/README.md.
#include <glog/logging.h>

#include <cmath>
#include <cstring>

#include "exchange_rows.h"
#include "layout.h"
#include "lumen/core/buffer.h"
#include "lumen/core/error.h"
#include "passes.h"
#include "tree.h"

namespace lumen::comm {
namespace {

std::vector<TreeNode> HostedNodes(const Layout& layout, int rank) {
  const Range hosted = layout.Hosted(rank);
  return TreeCover(layout.shards(), static_cast<int>(hosted.begin),
                   static_cast<int>(hosted.end));
}

// Peak bytes of the messages of a bucket: parts sent and received, or sums sent
// and received.
int64_t MessageBytes(const Layout& layout, int rank) {
  const auto nodes = [&](int r) { return std::ssize(HostedNodes(layout, r)); };
  int64_t nodes_of_others = 0;
  for (int r = 0; r < layout.ranks(); ++r) {
    if (r != rank) nodes_of_others += nodes(r);
  }
  int64_t peak = 0;
  for (int b = 0; b < layout.buckets(); ++b) {
    const int64_t owned = layout.OwnedEntries(b, rank).size();
    const int64_t not_owned = layout.bucket(b).size() - owned;
    peak = std::max({peak, nodes(rank) * not_owned + nodes_of_others * owned,
                     owned * (layout.ranks() - 1) + not_owned});
  }
  return peak * static_cast<int64_t>(sizeof(float));
}

class DenseExchange final : public Exchange {
 public:
  DenseExchange(const ExchangeOptions& options, Communicator* communicator,
                const sparse::Compute& compute)
      : layout_(options, communicator->ranks()),
        communicator_(communicator),
        compute_(compute),
        clip_norm_(options.clip_norm) {
    const Range hosted = layout_.Hosted(rank());
    for (int64_t s = hosted.begin; s < hosted.end; ++s) {
      gradient_.emplace_back(layout_.parameters());
    }
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      nodes_.push_back(HostedNodes(layout_, peer));
      if (peer != rank()) others_.push_back(peer);
    }
  }

  std::span<float> Gradient(int shard) override {
    const Range hosted = layout_.Hosted(rank());
    CHECK(hosted.begin <= shard && shard < hosted.end) << shard;
    return gradient_[shard - hosted.begin].span();
  }

  void Add(int shard, int bucket) override {
    CHECK(!Gradient(shard).empty() || layout_.parameters() == 0);
    CHECK(0 <= bucket && bucket < layout_.buckets());
    ++added_;
  }

  bool Reduce(const Sink& sink) override {
    CHECK_EQ(added_, layout_.Hosted(rank()).size() * layout_.buckets())
        << "every hosted shard adds every bucket once";
    double square_sum = 0;
    bool finite = true;
    for (int b = 0; b < layout_.buckets(); ++b) {
      ReduceBucket(b);
      finite &= IsFinite(compute_, SumOf(b));
      if (clip_norm_ > 0) square_sum += SumOfSquares(compute_, SumOf(b));
    }
    // All ranks hold the same sums, so they agree without a word.
    reduced_ = finite && std::isfinite(square_sum);
    if (!reduced_) return false;
    const float factor =
        clip_norm_ > 0 ? ClipFactor(square_sum, clip_norm_) : 1.0f;
    for (int b = 0; b < layout_.buckets(); ++b) {
      if (factor != 1.0f) ScaleBy(compute_, factor, SumOf(b));
      sink(b, SumOf(b));
    }
    return true;
  }

  void Commit() override {
    CHECK(reduced_) << "only Discard is legal";
    Discard();
  }
  void Discard() override {
    added_ = 0;
    reduced_ = false;
  }

  std::vector<ExchangeState> ShardState(int) override { return {}; }
  bool has_owner_state() const override { return false; }
  void GatherOwnerState(std::span<float>) override {}
  void ScatterOwnerState(std::span<const float>) override {}

  int64_t memory_bytes() const override {
    return static_cast<int64_t>(gradient_.size()) * layout_.parameters() *
               static_cast<int64_t>(sizeof(float)) +
           MessageBytes(layout_, rank());
  }

 private:
  // The sum of a node that some rank added up; level -1: none starts here.
  struct Given {
    int level = -1;
    std::span<float> part;
  };

  int rank() const { return communicator_->rank(); }

  std::span<float> SumOf(int b) {
    const Bucket& bucket = layout_.bucket(b);
    return gradient_[0].span().subspan(bucket.begin, bucket.size());
  }

  // Entries of bucket b that `owner` owns, in the gradient of `shard`.
  std::span<float> Part(int shard, int b, int owner) {
    const Range part = layout_.OwnedEntries(b, owner);
    return Gradient(shard).subspan(layout_.bucket(b).begin + part.begin,
                                   part.size());
  }

  // Adds up the subtree in place: its sum is in the gradient of its first
  // shard.
  void AddUp(TreeNode node, const Bucket& bucket) {
    if (node.level == 0) return;
    AddUp(node.left(), bucket);
    if (!node.has_right(layout_.shards())) return;
    AddUp(node.right(), bucket);
    const auto part = [&](TreeNode n) {
      return Gradient(n.begin()).subspan(bucket.begin, bucket.size());
    };
    AddTo(compute_, part(node.right()), part(node.left()));
  }

  // Completes the tree in place over the nodes of all ranks, listed by their
  // first shard; returns where the sum of `node` is.
  std::span<float> Complete(TreeNode node, const std::vector<Given>& given) {
    const Given& here = given[node.begin()];
    if (here.level == node.level) return here.part;
    const auto left = Complete(node.left(), given);
    if (node.has_right(layout_.shards())) {
      AddTo(compute_, Complete(node.right(), given), left);
    }
    return left;
  }

  std::vector<Message> SendParts(int b) {
    std::vector<Message> outgoing;
    for (const int owner : others_) {
      const int64_t size = layout_.OwnedEntries(b, owner).size();
      if (size == 0) continue;
      Message& message = outgoing.emplace_back();
      message.peer = owner;
      message.bytes.reserve(nodes_[rank()].size() * size * sizeof(float));
      for (const TreeNode& node : nodes_[rank()]) {
        const auto part = std::as_bytes(Part(node.begin(), b, owner));
        message.bytes.insert(message.bytes.end(), part.begin(), part.end());
      }
    }
    const bool own = layout_.OwnedEntries(b, rank()).size() > 0;
    return communicator_->Exchange(std::move(outgoing),
                                   own ? others_ : std::vector<int>{});
  }

  [[noreturn]] void WrongSize(int peer, int64_t found, int64_t expected) {
    throw CommError("exchange: rank " + std::to_string(peer) + " on " +
                    communicator_->host_of(peer) + " sent " +
                    std::to_string(found) + " bytes; expected " +
                    std::to_string(expected) +
                    "; do all ranks run the same spec?");
  }

  void ReduceBucket(int b) {
    const Bucket& bucket = layout_.bucket(b);
    for (const TreeNode& node : nodes_[rank()]) AddUp(node, bucket);
    if (others_.empty()) return;

    std::vector<Message> parts = SendParts(b);
    const int64_t size = layout_.OwnedEntries(b, rank()).size();
    std::vector<Given> given(layout_.shards());
    for (const TreeNode& node : nodes_[rank()]) {
      given[node.begin()] = {node.level, Part(node.begin(), b, rank())};
    }
    for (Message& message : parts) {
      const auto& cover = nodes_[message.peer];
      const auto found = static_cast<int64_t>(message.bytes.size());
      const auto expected =
          static_cast<int64_t>(cover.size() * sizeof(float)) * size;
      if (found != expected) WrongSize(message.peer, found, expected);
      auto* values = reinterpret_cast<float*>(message.bytes.data());
      for (size_t i = 0; i < cover.size(); ++i) {
        given[cover[i].begin()] = {
            cover[i].level, {values + i * size, static_cast<size_t>(size)}};
      }
    }
    const auto mine =
        Part(static_cast<int>(layout_.Hosted(rank()).begin), b, rank());
    if (size > 0) {
      const auto sum = Complete(TreeRoot(layout_.shards()), given);
      if (sum.data() != mine.data()) {
        std::memcpy(mine.data(), sum.data(), sum.size_bytes());
      }
    }
    parts.clear();
    ShareSums(b);
  }

  // The owned sums of a bucket to all, into the gradient of the first shard.
  void ShareSums(int b) {
    const int first = static_cast<int>(layout_.Hosted(rank()).begin);
    const auto mine = std::as_bytes(Part(first, b, rank()));
    std::vector<Message> outgoing;
    std::vector<int> owners;
    for (const int peer : others_) {
      if (!mine.empty()) {
        outgoing.push_back({peer, {mine.begin(), mine.end()}});
      }
      if (layout_.OwnedEntries(b, peer).size() > 0) owners.push_back(peer);
    }
    for (const Message& message :
         communicator_->Exchange(std::move(outgoing), owners)) {
      const auto part = Part(first, b, message.peer);
      if (message.bytes.size() != part.size_bytes()) {
        WrongSize(message.peer, static_cast<int64_t>(message.bytes.size()),
                  static_cast<int64_t>(part.size_bytes()));
      }
      std::memcpy(part.data(), message.bytes.data(), part.size_bytes());
    }
  }

  Layout layout_;
  Communicator* communicator_;
  sparse::Compute compute_;
  double clip_norm_;
  std::vector<Buffer<float>> gradient_;       // of each hosted shard
  std::vector<std::vector<TreeNode>> nodes_;  // hosted subtrees of each rank
  std::vector<int> others_;
  int64_t added_ = 0;
  bool reduced_ = false;
};

}  // namespace

std::unique_ptr<Exchange> NewDenseExchange(const ExchangeOptions& options,
                                           Communicator* communicator,
                                           const sparse::Compute& compute) {
  return std::make_unique<DenseExchange>(options, communicator, compute);
}

ExchangeMemory PlanDenseExchange(const ExchangeOptions& options, int ranks) {
  const Layout layout(options, ranks);
  ExchangeMemory plan;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t owned = layout.OwnedSize(rank);
    const int64_t nodes = std::ssize(HostedNodes(layout, rank));
    // Parts to the owners, sums to all; with each of the two messages per
    // bucket and peer a size of about 4 bytes.
    plan.wire_bytes_step +=
        4.0 * static_cast<double>(nodes * (layout.parameters() - owned)) +
        (ranks - 1) * (4.0 * static_cast<double>(owned) + 8 * layout.buckets());
    plan.bytes = std::max(plan.bytes,
                          layout.Hosted(rank).size() * 4 * layout.parameters() +
                              MessageBytes(layout, rank));
  }
  return plan;
}

}  // namespace lumen::comm

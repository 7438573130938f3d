// SPDX-License-Identifier: Apache-2.0
#include "mask_update.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <set>

#include "lumen/comm/codec.h"
#include "lumen/core/math.h"
#include "lumen/core/philox.h"
#include "smallest.h"

namespace lumen::train {
namespace {

// Each shard proposes this many times what will grow.
constexpr int64_t kProposals = 2;
// Scores only rank: half precision is enough.
constexpr comm::ValueCode kScoreCode = comm::ValueCode::kBf16;
// Positions inside one coded slice are 32-bit.
constexpr int64_t kMostPositions = std::numeric_limits<int32_t>::max();

using Candidates = std::vector<nn::GrowthCandidate>;

int64_t SliceLength(const nn::ParameterDecl& declaration, int64_t begin) {
  return std::min(kMostPositions, declaration.dense_size() - begin);
}

void Encode(const nn::ParameterDecl& declaration, const Candidates& candidates,
            std::vector<std::byte>* out) {
  auto next = candidates.begin();
  for (int64_t begin = 0; begin < declaration.dense_size();
       begin += kMostPositions) {
    comm::SparseSlice slice;
    slice.length = SliceLength(declaration, begin);
    for (; next != candidates.end() && next->position < begin + slice.length;
         ++next) {
      slice.position.push_back(static_cast<int32_t>(next->position - begin));
      slice.value.push_back(next->gradient);
    }
    comm::EncodeSlice(kScoreCode, &slice, out);
  }
}

// Appends the candidates of one shard.
void Decode(const nn::ParameterDecl& declaration,
            std::span<const std::byte>* bytes, Candidates* candidates) {
  for (int64_t begin = 0; begin < declaration.dense_size();
       begin += kMostPositions) {
    comm::SparseSlice slice;
    comm::DecodeSlice(kScoreCode, SliceLength(declaration, begin), bytes,
                      &slice);
    for (size_t i = 0; i < slice.position.size(); ++i) {
      candidates->push_back({begin + slice.position[i], slice.value[i]});
    }
  }
}

std::vector<int64_t> AllPositions(const nn::Parameter& tensor) {
  std::vector<int64_t> positions(static_cast<size_t>(tensor.size()));
  tensor.Positions(0, positions);
  return positions;
}

// The positions of the `count` largest sums, ties to the lowest position. Sums
// go by the order of the candidates.
std::vector<int64_t> Best(Candidates candidates, int64_t count) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const auto& a, const auto& b) { return a.position < b.position; });
  std::vector<std::pair<double, int64_t>> ranked;
  for (size_t i = 0; i < candidates.size();) {
    const int64_t position = candidates[i].position;
    double sum = 0;
    for (; i < candidates.size() && candidates[i].position == position; ++i) {
      sum += static_cast<double>(candidates[i].gradient);
    }
    ranked.emplace_back(-std::abs(sum), position);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int64_t> best;
  for (const auto& [score, position] : ranked) {
    if (std::ssize(best) == count) break;
    best.push_back(position);
  }
  return best;
}

// `count` absent positions, uniform without replacement.
std::vector<int64_t> RandomAbsent(RandomKey key, uint32_t step,
                                  const nn::Parameter& tensor,
                                  std::vector<int64_t> present, int64_t count) {
  const auto dense = static_cast<uint64_t>(tensor.decl.dense_size());
  std::vector<int64_t> chosen;
  std::set<int64_t> taken;
  for (uint64_t draw = 0; std::ssize(chosen) < count; ++draw) {
    const auto bits = Draw(key, step, draw, 0);
    const uint64_t word = (uint64_t{bits[0]} << 32) | bits[1];
    // The high part of word * dense: uniform to 2^-64 of the range.
    const auto position = static_cast<int64_t>(
        (static_cast<unsigned __int128>(word) * dense) >> 64);
    if (std::binary_search(present.begin(), present.end(), position)) continue;
    if (taken.insert(position).second) chosen.push_back(position);
  }
  return chosen;
}

struct NewMask {
  std::vector<int64_t> positions;
  std::vector<int64_t> source;  // old entry of each, -1: new
};

NewMask Move(const std::vector<int64_t>& old, const std::vector<int64_t>& drop,
             std::vector<int64_t> grow) {
  std::sort(grow.begin(), grow.end());
  NewMask mask;
  auto dropped = drop.begin();
  auto grown = grow.begin();
  const auto add = [&](int64_t position, int64_t source) {
    mask.positions.push_back(position);
    mask.source.push_back(source);
  };
  for (int64_t i = 0; i < std::ssize(old); ++i) {
    const int64_t position = old[static_cast<size_t>(i)];
    for (; grown != grow.end() && *grown < position; ++grown) add(*grown, -1);
    if (dropped != drop.end() && *dropped == i) {
      ++dropped;
    } else {
      add(position, i);
    }
  }
  for (; grown != grow.end(); ++grown) add(*grown, -1);
  return mask;
}

// The part of a flat array [parameters] that belongs to a tensor.
std::span<float> Part(std::span<float> flat, const nn::Parameter& tensor) {
  return flat.subspan(static_cast<size_t>(tensor.offset),
                      static_cast<size_t>(tensor.size()));
}

}  // namespace

MaskUpdates::MaskUpdates(const Spec& spec, int64_t total_steps) {
  const Json& sparsity = spec.model().at("sparsity");
  const std::string& method = sparsity.at("method").text();
  dynamic_ = method == "set" || method == "rigl";
  by_gradient_ = method == "rigl";
  seed_ = spec.seed();
  every_ = sparsity.at("update_every").integer();
  drop_fraction_ = sparsity.at("drop_fraction").number();
  stop_step_ = static_cast<int64_t>(sparsity.at("stop_at").number() *
                                    static_cast<double>(total_steps));
}

bool MaskUpdates::Due(int64_t step) const {
  return dynamic_ && step > 0 && step % every_ == 0 && step < stop_step_;
}

int64_t MaskUpdates::Moves(int64_t step, int64_t nnz) const {
  // Evci et al. 2020, section 3: a cosine from the fraction down to 0.
  const double share = drop_fraction_ / 2 *
                       (1 + Cos(std::numbers::pi * static_cast<double>(step) /
                                static_cast<double>(stop_step_)));
  return static_cast<int64_t>(share * static_cast<double>(nnz));
}

nn::GrowthSearch MaskUpdates::NewSearch(const nn::Model& model, int64_t step) {
  nn::GrowthSearch search;
  proposals_.emplace_back();
  const auto tensors = model.parameters().tensors();
  for (const nn::Parameter& tensor : tensors) {
    search.count.push_back(by_gradient_ && tensor.rows
                               ? kProposals * Moves(step, tensor.size())
                               : 0);
  }
  search.found = [tensors, out = &proposals_.back()](int tensor,
                                                     Candidates found) {
    Encode(tensors[static_cast<size_t>(tensor)].decl, found, out);
  };
  return search;
}

int64_t MaskUpdates::Apply(int64_t step, const StateParts& parts,
                           const Parallel& parallel,
                           comm::Communicator* communicator,
                           Buffer<float>* owner) {
  nn::ParameterSet& parameters = parts.model->parameters();
  const auto tensors = parameters.tensors();
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::span<const std::byte>> shards =
      ShardProposals(communicator, &messages);
  const bool root = communicator->rank() == 0;
  const bool has_owner = parts.exchange->has_owner_state();
  if (has_owner) {
    if (root && owner->size() != parameters.size())
      *owner = Buffer<float>(parameters.size());
    parts.exchange->GatherOwnerState(owner->span());
  }
  int64_t moved = 0;
  for (auto t = std::ssize(tensors) - 1; t >= 0; --t) {
    const nn::Parameter& tensor = tensors[static_cast<size_t>(t)];
    const int64_t wanted = tensor.rows ? Moves(step, tensor.size()) : 0;
    if (wanted == 0) continue;
    std::vector<int64_t> grow;
    const std::vector<int64_t> old = AllPositions(tensor);
    const int64_t absent = tensor.decl.dense_size() - tensor.size();
    if (by_gradient_) {
      Candidates candidates;
      for (auto& shard : shards) Decode(tensor.decl, &shard, &candidates);
      grow = Best(std::move(candidates), wanted);
    } else {
      grow = RandomAbsent(
          NewRandomKey(seed_, Stream::kGrow, static_cast<uint32_t>(t)),
          static_cast<uint32_t>(step), tensor, old, std::min(wanted, absent));
    }
    const NewMask mask =
        Move(old, SmallestEntries(parameters.values(tensor), std::ssize(grow)),
             grow);
    const auto move = [&](std::span<float> flat) {
      nn::TakeEntries(mask.source, Part(flat, tensor));
    };
    for (const auto& state : parts.optimizer->State()) move(state.values);
    if (!parts.average.empty()) move(parts.average);
    for (int shard : parts.hosted_shards) {
      for (const auto& state : parts.exchange->ShardState(shard)) {
        move(state.values);
      }
    }
    if (has_owner && root) move(owner->span());
    const int64_t rows = tensor.decl.shape[0];
    parts.model->ReplaceMask(
        static_cast<int>(t),
        sparse::PatternFromPositions(rows, tensor.decl.dense_size() / rows,
                                     mask.positions),
        mask.source);
    moved += std::ssize(grow);
  }
  if (has_owner) parts.exchange->ScatterOwnerState(owner->span());
  parameters.Refresh(parallel);
  return moved;
}

std::vector<std::span<const std::byte>> MaskUpdates::ShardProposals(
    comm::Communicator* communicator,
    std::vector<std::vector<std::byte>>* messages) const {
  std::vector<std::span<const std::byte>> shards;
  if (!by_gradient_) return shards;
  // Each shard's part is preceded by its size.
  std::vector<std::byte> mine;
  for (const auto& shard : proposals_) {
    const auto size = static_cast<int64_t>(shard.size());
    const auto head = std::as_bytes(std::span<const int64_t>(&size, 1));
    mine.insert(mine.end(), head.begin(), head.end());
    mine.insert(mine.end(), shard.begin(), shard.end());
  }
  *messages = communicator->AllGather(mine);
  for (const auto& message : *messages) {
    std::span<const std::byte> left(message);
    while (!left.empty()) {
      int64_t size = 0;
      CHECK_GE(left.size(), sizeof(size));
      std::memcpy(&size, left.data(), sizeof(size));
      left = left.subspan(sizeof(size));
      CHECK(size >= 0 && size <= std::ssize(left)) << size;
      shards.push_back(left.first(static_cast<size_t>(size)));
      left = left.subspan(static_cast<size_t>(size));
    }
  }
  return shards;
}

int64_t MaskUpdates::SearchMultiplyAdds(const nn::Graph& graph) const {
  if (!by_gradient_) return 0;
  int64_t sum = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const nn::Node& node = graph.nodes[i];
    if (node.parameters == 0) continue;
    const auto first = static_cast<size_t>(node.first_parameter);
    if (!graph.declarations[first].is_sparse()) continue;
    sum += graph.DenseMultiplyAdds(static_cast<int>(i));
  }
  return sum;
}

int64_t MaskUpdates::MemoryBytes(const Spec& spec, const nn::Graph& graph) {
  const MaskUpdates updates(spec, 0);
  if (!updates.dynamic_) return 0;
  int64_t most = 0;
  for (const nn::ParameterDecl& declaration : graph.declarations) {
    if (!declaration.is_sparse()) continue;
    const auto moves = static_cast<int64_t>(
        updates.drop_fraction_ * static_cast<double>(declaration.nnz));
    const int64_t proposals = kProposals * moves;
    const int64_t search = nn::GrowthSearchBytes(
        declaration.dense_size() / declaration.shape[0], proposals);
    // Old and new positions, sources, a copy of the values, and the pattern
    // beside the old one; candidates of all shards, twice while they are
    // ranked.
    const int64_t change =
        48 * declaration.nnz +
        (updates.by_gradient_ ? 32 * proposals * spec.shards() : 0);
    most = std::max({most, updates.by_gradient_ ? search : 0, change});
  }
  return most;
}

}  // namespace lumen::train

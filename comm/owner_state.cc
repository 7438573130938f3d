// SPDX-License-Identifier: Apache-2.0
#include "owner_state.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>

namespace lumen::comm {
namespace {

// A piece of the array: in the owner's array and by position.
struct Piece {
  int owner;
  Range local;
  Range flat;
};

// Calls move(piece) for each piece that this rank takes part in: rank 0 in all.
void ForEachPiece(const Layout& layout, int rank,
                  const std::function<void(const Piece&)>& move) {
  for (int owner = 0; owner < layout.ranks(); ++owner) {
    if (rank != 0 && rank != owner) continue;
    int64_t next = 0;
    for (int b = 0; b < layout.buckets(); ++b) {
      const Range entries = layout.OwnedEntries(b, owner);
      if (entries.size() == 0) continue;
      const int64_t origin = layout.bucket(b).begin;
      move({owner,
            {next, next + entries.size()},
            {origin + entries.begin, origin + entries.end}});
      next += entries.size();
    }
  }
}

template <class T>
std::span<T> Cut(std::span<T> array, Range range) {
  return array.subspan(range.begin, range.size());
}

void CheckSizes(const Layout& layout, int rank, int64_t owned, int64_t whole) {
  CHECK_EQ(owned, layout.OwnedSize(rank));
  if (rank == 0) CHECK_EQ(whole, layout.parameters());
}

}  // namespace

void GatherOwned(const Layout& layout, Communicator* communicator,
                 std::span<const float> owned, std::span<float> whole) {
  const int rank = communicator->rank();
  CheckSizes(layout, rank, std::ssize(owned), std::ssize(whole));
  ForEachPiece(layout, rank, [&](const Piece& piece) {
    if (rank != 0) {
      communicator->Send(0, std::as_bytes(Cut(owned, piece.local)));
    } else if (piece.owner != 0) {
      communicator->Receive(piece.owner,
                            std::as_writable_bytes(Cut(whole, piece.flat)));
    } else {
      std::ranges::copy(Cut(owned, piece.local),
                        Cut(whole, piece.flat).begin());
    }
  });
}

void ScatterOwned(const Layout& layout, Communicator* communicator,
                  std::span<const float> whole, std::span<float> owned) {
  const int rank = communicator->rank();
  CheckSizes(layout, rank, std::ssize(owned), std::ssize(whole));
  ForEachPiece(layout, rank, [&](const Piece& piece) {
    if (rank != 0) {
      communicator->Receive(0, std::as_writable_bytes(Cut(owned, piece.local)));
    } else if (piece.owner != 0) {
      communicator->Send(piece.owner, std::as_bytes(Cut(whole, piece.flat)));
    } else {
      std::ranges::copy(Cut(whole, piece.flat),
                        Cut(owned, piece.local).begin());
    }
  });
}

}  // namespace lumen::comm

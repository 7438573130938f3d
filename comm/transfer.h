// SPDX-License-Identifier: Apache-2.0
// The engine under every operation of the communicator: a set of messages to
// and from peers, at most one per peer and direction, moved in pieces.
//
//   message := head body*
//   head    := varint(size) payload[min(size, kInlineBytes, chunk)]
//   body    := payload[at most chunk]
//
// The receiver posts a buffer for the largest head in advance, so it learns the
// size without an extra round trip and no receive can truncate.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "varint.h"

namespace lumen::comm {

// Throws CommError with MPI's own text unless `code` is MPI_SUCCESS.
void CheckMpi(int code, const char* call);

// One tag per kind of operation: messages of ranks that disagree about what
// comes next never meet.
enum class Tag : int {
  kBarrier = 1,
  kBroadcast,
  kAllGather,
  kExchange,
  kPoint,
};
const char* TagName(Tag tag);

// Pins the buffers of the transfers in flight: not copyable, not movable.
class Transfer {
 public:
  Transfer(MPI_Comm world, Tag tag, int64_t chunk_bytes,
           std::vector<std::string> const& hosts, int rank);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  // Takes back what has not arrived. Sends cannot be taken back.
  ~Transfer();

  // Before Run. The payload stays the caller's until Run returns. Sends start
  // in the order they were added.
  void AddSend(int peer, std::span<const std::byte> payload);
  // Receives into received()[i], i counting AddReceive calls.
  void AddReceive(int peer);
  // Receives exactly target.size() bytes.
  void AddReceiveInto(int peer, std::span<std::byte> target);

  // Moves everything. Polls with sched_yield and short sleeps. Throws CommError
  // when nothing moved for timeout_seconds.
  void Run(double timeout_seconds);

  std::vector<std::vector<std::byte>>& received() { return received_; }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  static constexpr int64_t kInlineBytes = 2030;
  static constexpr int kBodiesInFlight = 4;
  using Head = std::array<std::byte, kInlineBytes + kMaxVarintBytes>;

  struct Outgoing {
    int peer;
    std::span<const std::byte> payload;
    Head head;
    int64_t sent = 0;        // payload bytes handed to MPI
    bool in_flight = false;  // is its request active?
  };
  struct Incoming {
    int peer;
    std::span<std::byte> target;  // where the payload goes
    bool fixed_size = false;
    Head head;
    bool head_done = false;
    int64_t asked = 0;  // payload bytes received or being received
    bool done = false;
  };

  int64_t ChunkAt(int64_t done, int64_t size) const;
  void StartHeads();
  void StartBodies();
  void OnSent(int64_t index);
  void OnReceived(int64_t index, const MPI_Status& status);
  void OnHead(int64_t index, int64_t bytes);
  bool Done() const { return open_ == 0; }
  [[noreturn]] void ThrowTimeout(double seconds) const;

  MPI_Comm world_;
  Tag tag_;
  int64_t chunk_bytes_;
  const std::vector<std::string>& hosts_;
  int rank_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<std::vector<std::byte>> received_;
  std::vector<MPI_Request> requests_;  // of incoming_, then of outgoing_
  int bodies_in_flight_ = 0;
  int64_t open_ = 0;  // messages not yet complete
  int64_t bytes_sent_ = 0;
};

}  // namespace lumen::comm

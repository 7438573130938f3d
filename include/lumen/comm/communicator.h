// SPDX-License-Identifier: Apache-2.0
// The ranks of a run. mpi.h stays inside comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lumen::comm {

// One non-blocking transfer plan: messages to and from each rank. Payloads are
// owned by the caller until Wait returns.
struct Message {
  int peer = 0;
  std::vector<std::byte> bytes;
};

// Not thread-safe: one thread per rank calls it (MPI_THREAD_FUNNELED is
// enough). All collective calls must be made by every rank in the same order.
// Payload bytes are counted by the sender. Transfers are cut into pieces below
// chunk_bytes, so counts never reach 2^31. Throws CommError naming the ranks
// and hosts that are waited for when nothing arrives within the timeout.
class Communicator {
 public:
  // Initialises MPI on first use; finalises in the destructor. Works without
  // mpirun as one rank. Throws CommError when SLURM_NTASKS > 1 but MPI sees one
  // rank (srun without PMI), with the flag to use.
  static std::unique_ptr<Communicator> NewWorld(int* argc, char*** argv);
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual const std::string& host() const = 0;
  virtual std::string library_version() const = 0;  // "Open MPI 4.1.4"

  virtual void Barrier() = 0;
  // From `root` to all; sizes are sent along. Bytes: (P - 1) * size in all.
  virtual void Broadcast(int root, std::vector<std::byte>* bytes) = 0;
  // Every rank's bytes, in rank order. Bytes: P * (P - 1) * size in all.
  virtual std::vector<std::vector<std::byte>> AllGather(
      std::span<const std::byte> bytes) = 0;
  // Sends outgoing messages and receives exactly one from each rank in
  // `sources` (ascending), rotated so that no rank is hit by all at once. Sizes
  // travel with the message. Self messages are not allowed.
  virtual std::vector<Message> Exchange(std::vector<Message> outgoing,
                                        const std::vector<int>& sources) = 0;
  // Point to point for long arrays (checkpoint gathers), blocking.
  virtual void Send(int peer, std::span<const std::byte> bytes) = 0;
  virtual void Receive(int peer, std::span<std::byte> bytes) = 0;
  // Ends all ranks with this exit code. Does not return.
  [[noreturn]] virtual void Abort(int exit_code) = 0;

  // Payload sent by this rank since the start.
  int64_t bytes_sent() const { return bytes_sent_; }
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }
  // For tests of the chunking.
  void set_chunk_bytes(int64_t bytes) { chunk_bytes_ = bytes; }

 protected:
  int64_t bytes_sent_ = 0;
  double timeout_seconds_ = 600;
  int64_t chunk_bytes_ = int64_t{1} << 30;
};

}  // namespace lumen::comm

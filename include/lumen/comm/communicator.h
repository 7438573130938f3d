// SPDX-License-Identifier: Apache-2.0
// The ranks of a run. mpi.h stays inside comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lumen::comm {

// Bytes to or from a rank.
struct Message {
  int peer = 0;
  std::vector<std::byte> bytes;
};

// Not thread-safe: one thread per rank calls it (MPI_THREAD_FUNNELED is
// enough). All collective calls must be made by every rank in the same order.
// Payload bytes are counted by the sender. Transfers are cut into pieces of at
// most chunk_bytes, so counts never reach 2^31; the size of a message travels
// in its first piece (1 to 5 bytes, counted too), which also carries short
// payloads, so a short message is one MPI message. Throws CommError naming the
// ranks and hosts that are waited for when nothing arrives within the timeout;
// after that only the destructor and Abort are safe.
class Communicator {
 public:
  // Initialises MPI; the destructor finalises it, after a barrier, so that an
  // early non-zero exit of one rank cannot make mpirun kill a slower one. While
  // an exception unwinds it waits for the others five seconds at most. Works
  // without mpirun as one rank. Collective, once per process. Throws CommError
  // when SLURM_NTASKS > 1 but MPI sees one rank and no mpirun asked for one
  // (srun without PMI), with the flag to use.
  static std::unique_ptr<Communicator> NewWorld(int* argc, char*** argv);
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual const std::string& host() const = 0;  // of this rank
  virtual const std::string& host_of(int peer) const = 0;
  virtual std::string library_version() const = 0;  // "Open MPI 4.1.4"

  // Every rank tells every other. Bytes: P * (P - 1) in all.
  virtual void Barrier() = 0;
  // From `root` to all; sizes are sent along. Bytes: (P - 1) * size in all.
  virtual void Broadcast(int root, std::vector<std::byte>* bytes) = 0;
  // Every rank's bytes, in rank order; sizes may differ. One direct message per
  // pair: for tiny payloads (the vote of a step) one network latency. Bytes:
  // P * (P - 1) * size in all.
  virtual std::vector<std::vector<std::byte>> AllGather(
      std::span<const std::byte> bytes) = 0;
  // Sends outgoing messages and receives exactly one from each rank in
  // `sources` (ascending, returned in that order), rotated so that no rank is
  // hit by all at once, long ones a few at a time. At most one message per
  // peer, none to oneself.
  virtual std::vector<Message> Exchange(std::vector<Message> outgoing,
                                        const std::vector<int>& sources) = 0;
  // Point to point for long arrays (checkpoint gathers), blocking. Throws
  // CommError when the two sizes differ.
  virtual void Send(int peer, std::span<const std::byte> bytes) = 0;
  virtual void Receive(int peer, std::span<std::byte> bytes) = 0;
  // Ends all ranks with this exit code. Does not return.
  [[noreturn]] virtual void Abort(int exit_code) = 0;

  // Payload sent by this rank since the start.
  int64_t bytes_sent() const { return bytes_sent_; }
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }
  // For tests of the chunking. The same on all ranks; REQUIRES 1 <= bytes <=
  // 2^30.
  void set_chunk_bytes(int64_t bytes) { chunk_bytes_ = bytes; }

 protected:
  int64_t bytes_sent_ = 0;
  double timeout_seconds_ = 600;
  int64_t chunk_bytes_ = int64_t{1} << 30;
};

}  // namespace lumen::comm

// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/communicator.h"

#include <fmt/format.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "launcher.h"
#include "lumen/core/error.h"
#include "transfer.h"

namespace lumen::comm {
namespace {

// How long a failing rank waits for the others to finish together.
constexpr double kLastBarrierSeconds = 5;

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown host";
  return name;
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm world, bool finalize)
      : world_(world), finalize_(finalize) {
    CheckMpi(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
    CheckMpi(MPI_Comm_size(world_, &ranks_), "MPI_Comm_size");
    hosts_.assign(ranks_, "a host not yet known");
    hosts_[rank_] = HostName();
    const auto names = AllGather(AsBytes(hosts_[rank_]));
    for (int peer = 0; peer < ranks_; ++peer) {
      hosts_[peer].assign(reinterpret_cast<const char*>(names[peer].data()),
                          names[peer].size());
    }
  }

  ~MpiCommunicator() override {
    if (failed_ || std::uncaught_exceptions() > uncaught_) {
      timeout_seconds_ = std::min(timeout_seconds_, kLastBarrierSeconds);
    }
    try {
      Barrier();
    } catch (const CommError&) {
      return;  // the process ends without MPI_Finalize: mpirun ends the others
    }
    MPI_Comm_free(&world_);
    if (finalize_) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  const std::string& host() const override { return hosts_[rank_]; }
  const std::string& host_of(int peer) const override { return hosts_[peer]; }

  std::string library_version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string version(text, length);
    version = version.substr(0, version.find_first_of(",\n"));
    const size_t v = version.find(" v");  // "Open MPI v4.1.4"
    return v == std::string::npos ? version : version.erase(v + 1, 1);
  }

  void Barrier() override { Everyone(Tag::kBarrier, {}); }

  void Broadcast(int root, std::vector<std::byte>* bytes) override {
    auto transfer = NewTransfer(Tag::kBroadcast);
    if (rank_ == root) {
      for (int i = 1; i < ranks_; ++i) transfer.AddSend(Rotated(i), *bytes);
    } else {
      transfer.AddReceive(root);
    }
    Run(&transfer);
    if (rank_ != root) *bytes = std::move(transfer.received()[0]);
  }

  std::vector<std::vector<std::byte>> AllGather(
      std::span<const std::byte> bytes) override {
    auto others = Everyone(Tag::kAllGather, bytes);
    others.emplace(others.begin() + rank_, bytes.begin(), bytes.end());
    return others;
  }

  std::vector<Message> Exchange(std::vector<Message> outgoing,
                                const std::vector<int>& sources) override {
    auto transfer = NewTransfer(Tag::kExchange);
    const auto distance = [this](int peer) {
      return (peer - rank_ + ranks_) % ranks_;
    };
    std::sort(outgoing.begin(), outgoing.end(),
              [&](const Message& a, const Message& b) {
                return distance(a.peer) < distance(b.peer);
              });
    for (const Message& message : outgoing) {
      transfer.AddSend(message.peer, message.bytes);
    }
    for (const int peer : sources) transfer.AddReceive(peer);
    Run(&transfer);
    std::vector<Message> result(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      result[i] = {sources[i], std::move(transfer.received()[i])};
    }
    return result;
  }

  void Send(int peer, std::span<const std::byte> bytes) override {
    auto transfer = NewTransfer(Tag::kPoint);
    transfer.AddSend(peer, bytes);
    Run(&transfer);
  }

  void Receive(int peer, std::span<std::byte> bytes) override {
    auto transfer = NewTransfer(Tag::kPoint);
    transfer.AddReceiveInto(peer, bytes);
    Run(&transfer);
  }

  [[noreturn]] void Abort(int exit_code) override {
    MPI_Abort(world_, exit_code);
    std::_Exit(exit_code);
  }

 private:
  int Rotated(int distance) const { return (rank_ + distance) % ranks_; }

  Transfer NewTransfer(Tag tag) const {
    return Transfer(world_, tag, chunk_bytes_, hosts_, rank_);
  }

  void Run(Transfer* transfer) {
    try {
      transfer->Run(timeout_seconds_);
    } catch (const CommError&) {
      failed_ = true;
      throw;
    }
    bytes_sent_ += transfer->bytes_sent();
  }

  // The same bytes to all others; theirs in rank order.
  std::vector<std::vector<std::byte>> Everyone(
      Tag tag, std::span<const std::byte> bytes) {
    auto transfer = NewTransfer(tag);
    for (int i = 1; i < ranks_; ++i) transfer.AddSend(Rotated(i), bytes);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer != rank_) transfer.AddReceive(peer);
    }
    Run(&transfer);
    return std::move(transfer.received());
  }

  MPI_Comm world_;
  bool finalize_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<std::string> hosts_;
  bool failed_ = false;
  int uncaught_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Communicator> Communicator::NewWorld(int* argc, char*** argv) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  CHECK(!finalized) << "one communicator per process: MPI cannot start again";
  if (!initialized) {
    int provided = MPI_THREAD_SINGLE;
    CheckMpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided),
             "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED) {
      throw CommError(
          "MPI_Init_thread: this MPI library allows no threads; expected "
          "MPI_THREAD_FUNNELED; use a library built with thread support");
    }
  }
  // Errors of calls outside our communicator return as well.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int ranks = 1;
  CheckMpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  try {
    const char* open_mpi = std::getenv("OMPI_COMM_WORLD_SIZE");
    CheckLauncher(ranks, std::getenv("SLURM_NTASKS"),
                  open_mpi ? open_mpi : std::getenv("PMI_SIZE"));
  } catch (const CommError&) {
    if (!initialized) MPI_Finalize();
    throw;
  }
  MPI_Comm world = MPI_COMM_NULL;
  CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  return std::make_unique<MpiCommunicator>(world, !initialized);
}

}  // namespace lumen::comm

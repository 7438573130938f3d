// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <fmt/format.h>
#include <glog/logging.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "lumen/core/error.h"

namespace lumen::comm {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void CheckMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format(
      "{}: failed with \"{}\"; expected success; look at the other ranks' logs",
      call, std::string(text, length)));
}

const char* TagName(Tag tag) {
  switch (tag) {
    case Tag::kBarrier:
      return "barrier";
    case Tag::kBroadcast:
      return "broadcast";
    case Tag::kAllGather:
      return "all-gather";
    case Tag::kExchange:
      return "exchange";
    case Tag::kPoint:
      return "send or receive";
  }
  return "?";
}

Transfer::Transfer(MPI_Comm world, Tag tag, int64_t chunk_bytes,
                   const std::vector<std::string>& hosts, int rank)
    : world_(world),
      tag_(tag),
      chunk_bytes_(chunk_bytes),
      hosts_(hosts),
      rank_(rank) {
  CHECK(chunk_bytes >= 1 && chunk_bytes <= int64_t{1} << 30);
}

Transfer::~Transfer() {
  bool stuck = false;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    int done = 0;
    if (i < incoming_.size()) {
      MPI_Cancel(&requests_[i]);
      MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
    }
    if (!done) {
      MPI_Request_free(&requests_[i]);
      stuck = true;
    }
  }
  if (!stuck) return;
  // MPI may still write here; a wait could hang on a dead rank. The process is
  // about to end, so the buffers stay.
  new auto(std::move(outgoing_));
  new auto(std::move(incoming_));
  new auto(std::move(received_));
}

void Transfer::AddSend(int peer, std::span<const std::byte> payload) {
  CHECK(peer != rank_);
  Outgoing& message = outgoing_.emplace_back();
  message.peer = peer;
  message.payload = payload;
}

void Transfer::AddReceive(int peer) {
  CHECK(peer != rank_);
  incoming_.emplace_back().peer = peer;
  received_.emplace_back();
}

void Transfer::AddReceiveInto(int peer, std::span<std::byte> target) {
  AddReceive(peer);
  incoming_.back().target = target;
  incoming_.back().fixed_size = true;
}

int64_t Transfer::ChunkAt(int64_t done, int64_t size) const {
  const int64_t limit =
      done == 0 ? std::min(kInlineBytes, chunk_bytes_) : chunk_bytes_;
  return std::min(limit, size - done);
}

void Transfer::StartHeads() {
  const int tag = static_cast<int>(tag_);
  for (size_t i = 0; i < incoming_.size(); ++i) {
    Incoming& m = incoming_[i];
    CheckMpi(MPI_Irecv(m.head.data(), static_cast<int>(m.head.size()), MPI_BYTE,
                       m.peer, tag, world_, &requests_[i]),
             "MPI_Irecv");
  }
  for (size_t i = 0; i < outgoing_.size(); ++i) {
    Outgoing& m = outgoing_[i];
    const auto size = static_cast<int64_t>(m.payload.size());
    const int prefix = PutVarint(size, m.head.data());
    m.sent = ChunkAt(0, size);
    if (m.sent) std::memcpy(&m.head[prefix], m.payload.data(), m.sent);
    CheckMpi(
        MPI_Isend(m.head.data(), static_cast<int>(prefix + m.sent), MPI_BYTE,
                  m.peer, tag, world_, &requests_[incoming_.size() + i]),
        "MPI_Isend");
    m.in_flight = true;
    bytes_sent_ += prefix + m.sent;
  }
}

void Transfer::StartBodies() {
  for (size_t i = 0; i < outgoing_.size(); ++i) {
    if (bodies_in_flight_ >= kBodiesInFlight) return;
    Outgoing& m = outgoing_[i];
    const auto size = static_cast<int64_t>(m.payload.size());
    if (m.in_flight || m.sent == size) continue;
    const int64_t chunk = std::min(chunk_bytes_, size - m.sent);
    CheckMpi(MPI_Isend(m.payload.data() + m.sent, static_cast<int>(chunk),
                       MPI_BYTE, m.peer, static_cast<int>(tag_), world_,
                       &requests_[incoming_.size() + i]),
             "MPI_Isend");
    m.sent += chunk;
    m.in_flight = true;
    bytes_sent_ += chunk;
    ++bodies_in_flight_;
  }
}

void Transfer::OnSent(int64_t index) {
  Outgoing& m = outgoing_[index];
  const auto size = static_cast<int64_t>(m.payload.size());
  m.in_flight = false;
  if (m.sent > ChunkAt(0, size)) --bodies_in_flight_;
  if (m.sent == size) --open_;
}

void Transfer::OnHead(int64_t index, int64_t bytes) {
  Incoming& m = incoming_[index];
  std::span<const std::byte> head(m.head.data(), bytes);
  uint64_t size = 0;
  const bool read = GetVarint(&head, &size);
  const auto mine = static_cast<int64_t>(m.target.size());
  if (m.fixed_size && read && static_cast<int64_t>(size) != mine) {
    throw CommError(fmt::format(
        "rank {} on {}: rank {} on {} sent {} bytes; expected {}; do both ranks"
        " run the same spec and version?",
        rank_, hosts_[rank_], m.peer, hosts_[m.peer], size, mine));
  }
  if (!read || size > uint64_t{1} << 50 ||
      static_cast<int64_t>(head.size()) !=
          ChunkAt(0, static_cast<int64_t>(size))) {
    throw CommError(fmt::format(
        "rank {} on {}: a message of rank {} on {} has a broken head; expected "
        "its size; do both ranks run the same version?",
        rank_, hosts_[rank_], m.peer, hosts_[m.peer]));
  }
  if (!m.fixed_size) {
    received_[index].resize(size);
    m.target = received_[index];
  }
  m.head_done = true;
  m.asked = static_cast<int64_t>(head.size());
  if (!head.empty()) std::memcpy(m.target.data(), head.data(), head.size());
}

void Transfer::OnReceived(int64_t index, const MPI_Status& status) {
  Incoming& m = incoming_[index];
  if (!m.head_done) {
    int bytes = 0;
    CheckMpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    OnHead(index, bytes);
  }
  const auto size = static_cast<int64_t>(m.target.size());
  if (m.asked == size) {
    m.done = true;
    --open_;
    return;
  }
  const int64_t chunk = std::min(chunk_bytes_, size - m.asked);
  CheckMpi(
      MPI_Irecv(m.target.data() + m.asked, static_cast<int>(chunk), MPI_BYTE,
                m.peer, static_cast<int>(tag_), world_, &requests_[index]),
      "MPI_Irecv");
  m.asked += chunk;
}

void Transfer::Run(double timeout_seconds) {
  const size_t total = incoming_.size() + outgoing_.size();
  requests_.assign(total, MPI_REQUEST_NULL);
  open_ = static_cast<int64_t>(total);
  if (Done()) return;
  StartHeads();
  std::vector<int> completed(total);
  std::vector<MPI_Status> statuses(total);
  auto last_progress = Clock::now();
  while (!Done()) {
    StartBodies();
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(total), requests_.data(),
                                  &count, completed.data(), statuses.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (int i = 0; i < count; ++i) {
        CheckMpi(statuses[i].MPI_ERROR, "MPI_Testsome");
      }
    }
    CheckMpi(code, "MPI_Testsome");
    if (count > 0) {
      for (int i = 0; i < count; ++i) {
        const auto index = static_cast<size_t>(completed[i]);
        if (index < incoming_.size()) {
          OnReceived(completed[i], statuses[i]);
        } else {
          OnSent(static_cast<int64_t>(index - incoming_.size()));
        }
      }
      last_progress = Clock::now();
      continue;
    }
    const double idle = SecondsSince(last_progress);
    if (idle > timeout_seconds) ThrowTimeout(idle);
    if (idle < 2e-3) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void Transfer::ThrowTimeout(double seconds) const {
  std::vector<bool> awaited(hosts_.size());
  for (const Incoming& m : incoming_) {
    if (!m.done) awaited[m.peer] = true;
  }
  for (const Outgoing& m : outgoing_) {
    const bool sent = m.sent == static_cast<int64_t>(m.payload.size());
    if (m.in_flight || !sent) awaited[m.peer] = true;
  }
  std::string names;
  for (size_t peer = 0; peer < hosts_.size(); ++peer) {
    if (!awaited[peer]) continue;
    names += fmt::format("{}rank {} on {}", names.empty() ? "" : ", ", peer,
                         hosts_[peer]);
  }
  throw CommError(fmt::format(
      "rank {} on {}: {}: nothing moved for {:.1f} s; waits for {}; look at "
      "these ranks' logs and hosts",
      rank_, hosts_[rank_], TagName(tag_), seconds, names));
}

}  // namespace lumen::comm

// SPDX-License-Identifier: Apache-2.0
// What every command over ranks begins and ends with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "lumen/comm/communicator.h"
#include "lumen/sparse/compute.h"

namespace lumen::cli {

// A rank as the others see it.
struct RankInfo {
  std::string host;
  std::string processors;  // affinity list, "0-3,8"
  int processor_count = 0;
  int threads = 0;
  int isa = 0;
};

struct Session {
  std::unique_ptr<comm::Communicator> communicator;
  sparse::Compute compute;
  std::vector<RankInfo> ranks;  // of all ranks
};

// Starts MPI, chooses threads and an instruction set that every rank has, and
// makes sure that all ranks were started with the same arguments. When it
// throws, the communicator is there to report with; a usage error of one rank
// is thrown by all. Collective.
void StartSession(const CommandLine& line, Session* session);

// The text of a spec that rank 0 reads for all. Collective; throws alike.
std::string ReadSpecOnRoot(comm::Communicator* communicator,
                           const std::string& path);

// Makes sure that all ranks see the folder of rank 0 under this path. A
// relative path, or a disk of its own on each host, would scatter a checkpoint
// over several folders. `fix` ends the message. Collective; throws alike.
void RequireSharedFolder(comm::Communicator* communicator,
                         const std::string& folder, std::string_view fix);

// Runs `body` and turns what it throws into an exit code: 2 for SpecError, else
// 1. An error that all ranks meet is printed once and ends them in good order;
// one that only some ranks meet is printed by these and ends all ranks.
int RunTogether(const CommandLine& line,
                const std::function<int(Session*)>& body);

// True when a launcher started this process as one of several ranks.
bool IsOneOfSeveralRanks();

}  // namespace lumen::cli

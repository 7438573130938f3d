// SPDX-License-Identifier: Apache-2.0
// What every command over ranks begins and ends with.
#pragma once

#include <functional>
#include <memory>
#include <string>
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
// makes sure that all ranks were started with the same arguments. Collective.
Session NewSession(const CommandLine& line);

// "2 ranks on h1, h2 | 4 shards | ..." and what is wrong with the binding.
std::string Banner(const Session& session, int shards);
std::vector<std::string> BindingWarnings(const Session& session);

// The text of a file that rank 0 reads for all. Collective; throws alike.
std::string ReadOnRoot(comm::Communicator* communicator,
                       const std::string& path);

// Runs `body`; errors are printed once, and the exit code is the same on all
// ranks: 2 for SpecError, else 1. An error that only this rank knows of ends
// all ranks.
int RunTogether(const CommandLine& line,
                const std::function<int(Session*)>& body);

}  // namespace lumen::cli

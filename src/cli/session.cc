// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/json.h"
#include "lumen/core/parallel.h"
#include "lumen/sparse/onednn.h"

namespace lumen::cli {
namespace {

std::vector<std::byte> ToBytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string ToText(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The affinity mask as "0-3,8".
std::string ProcessorList() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return "?";
  std::string list;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    int last = i;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(i);
    if (last > i) list += "-" + std::to_string(last);
    i = last;
  }
  return list;
}

// Ranks of this run on this host, as the launcher says.
int LocalRanks() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                           "SLURM_NTASKS_PER_NODE"}) {
    if (const char* text = std::getenv(name)) {
      return std::max(1, std::atoi(text));
    }
  }
  return 1;
}

// A bound rank may use all of its processors; unbound ranks share the host's.
int DefaultThreads() {
  const int available = AvailableProcessors();
  const auto online =
      static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const bool bound = available < online;
  return bound ? available : std::max(1, available / LocalRanks());
}

std::string Encode(const RankInfo& info, const CommandLine& line) {
  Json json = Json::Object();
  json.Set("host", info.host);
  json.Set("processors", info.processors);
  json.Set("processor_count", info.processor_count);
  json.Set("threads", info.threads);
  json.Set("isa", info.isa);
  std::string words;
  for (const std::string& argument : line.arguments) words += argument + "\n";
  for (const std::string& text : line.overrides) words += text + "\n";
  json.Set("words", words);
  return json.Dump();
}

[[noreturn]] void Different(int rank, const std::string& words,
                            const std::string& root_words) {
  const auto lines = [](const std::string& text) {
    std::set<std::string> set;
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos;) {
      set.insert(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return set;
  };
  const auto only = [&](const std::string& a, const std::string& b) {
    std::string text;
    for (const std::string& word : lines(a)) {
      if (!lines(b).contains(word)) text += " " + word;
    }
    return text.empty() ? " nothing" : text;
  };
  throw SpecError(fmt::format(
      "rank {} was started with other arguments than rank 0; expected the same "
      "on all; only rank {} has{}; only rank 0 has{}",
      rank, rank, only(words, root_words), only(root_words, words)));
}

}  // namespace

Session NewSession(const CommandLine& line) {
  Session session;
  session.communicator = comm::Communicator::NewWorld(line.argc, line.argv);
  comm::Communicator* communicator = session.communicator.get();
  RankInfo mine;
  mine.host = communicator->host();
  mine.processors = ProcessorList();
  mine.processor_count = AvailableProcessors();
  mine.threads = line.flags.threads > 0 ? line.flags.threads : DefaultThreads();
  // What this rank cannot run is told to all before anybody throws.
  std::string isa_error;
  try {
    mine.isa = static_cast<int>(sparse::ParseIsa(line.flags.isa));
  } catch (const SpecError& error) {
    mine.isa = -1;
    isa_error = error.what();
  }
  std::string root_words;
  for (const auto& bytes :
       communicator->AllGather(ToBytes(Encode(mine, line)))) {
    const Json json = Json::Parse(ToText(bytes), "rank");
    RankInfo info;
    info.host = json.at("host").text();
    info.processors = json.at("processors").text();
    info.processor_count =
        static_cast<int>(json.at("processor_count").integer());
    info.threads = static_cast<int>(json.at("threads").integer());
    info.isa = static_cast<int>(json.at("isa").integer());
    const std::string& words = json.at("words").text();
    const auto rank = static_cast<int>(session.ranks.size());
    if (rank == 0) root_words = words;
    if (words != root_words) Different(rank, words, root_words);
    session.ranks.push_back(std::move(info));
  }
  int isa = session.ranks[0].isa;
  for (size_t r = 0; r < session.ranks.size(); ++r) {
    isa = std::min(isa, session.ranks[r].isa);
    if (session.ranks[r].isa >= 0) continue;
    throw SpecError(isa_error.empty()
                        ? fmt::format("--isa={}: rank {} ({}) cannot run it",
                                      line.flags.isa, r, session.ranks[r].host)
                        : isa_error);
  }
  session.compute.kernels = &sparse::Kernels(static_cast<sparse::Isa>(isa));
  session.compute.parallel = Parallel(mine.threads);
  CheckIeeeArithmetic(session.compute.parallel);
  return session;
}

std::string Banner(const Session& session, int shards) {
  std::vector<std::string> hosts;
  std::set<int> isas;
  for (const RankInfo& info : session.ranks) {
    if (std::find(hosts.begin(), hosts.end(), info.host) == hosts.end()) {
      hosts.push_back(info.host);
    }
    isas.insert(info.isa);
  }
  std::string where = hosts[0];
  if (hosts.size() > 1) {
    where = fmt::format("{} hosts ({} .. {})", hosts.size(), hosts.front(),
                        hosts.back());
  }
  const auto ranks = session.ranks.size();
  std::string text = fmt::format(
      "lumen {} | {} rank{} on {} | {} shards | {} thread{} per rank on "
      "processors {} | {}",
      LUMEN_VERSION, ranks, ranks == 1 ? "" : "s", where, shards,
      session.ranks[0].threads, session.ranks[0].threads == 1 ? "" : "s",
      session.ranks[0].processors,
      sparse::IsaName(session.compute.kernels->isa));
  if (isas.size() > 1) text += " (the least of all ranks)";
  return text + " | " + session.communicator->library_version() + ", " +
         sparse::OneDnnVersion();
}

std::vector<std::string> BindingWarnings(const Session& session) {
  // Threads wanted on each set of processors of a host.
  std::map<std::pair<std::string, std::string>, std::pair<int, int>> wanted;
  for (const RankInfo& info : session.ranks) {
    auto& [threads, processors] = wanted[{info.host, info.processors}];
    threads += info.threads;
    processors = info.processor_count;
  }
  std::vector<std::string> warnings;
  for (const auto& [place, load] : wanted) {
    if (load.first <= load.second) continue;
    warnings.push_back(fmt::format(
        "{}: {} threads share {} processor{} ({}); start with --map-by "
        "slot:PE=N for N threads per rank, with --bind-to none, or fewer "
        "--threads",
        place.first, load.first, load.second, load.second == 1 ? "" : "s",
        place.second));
  }
  return warnings;
}

std::string ReadOnRoot(comm::Communicator* communicator,
                       const std::string& path) {
  // The first byte says whether what follows is the text or an error.
  std::string message;
  if (communicator->rank() == 0) {
    try {
      message = "t" + ReadFile(path);
    } catch (const IoError& error) {
      message = std::string("e") + error.what();
    }
  }
  std::vector<std::byte> bytes = ToBytes(message);
  communicator->Broadcast(0, &bytes);
  message = ToText(bytes);
  if (message[0] == 'e') throw SharedIoError(message.substr(1));
  return message.substr(1);
}

int RunTogether(const CommandLine& line,
                const std::function<int(Session*)>& body) {
  Session session;
  int rank = 0;
  const auto shared = [&](const std::exception& error, int code) {
    if (rank == 0) fmt::print(stderr, "lumen: {}\n", error.what());
    return code;
  };
  try {
    session = NewSession(line);
    rank = session.communicator->rank();
    return body(&session);
  } catch (const SpecError& error) {
    return shared(error, 2);
  } catch (const SharedIoError& error) {
    return shared(error, 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lumen: rank {}: {}\n", rank, error.what());
    std::fflush(stderr);
    if (session.communicator && session.communicator->ranks() > 1) {
      // Others may fail alike: let them say so before they are ended.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      session.communicator->Abort(1);
    }
    return 1;
  }
}

}  // namespace lumen::cli

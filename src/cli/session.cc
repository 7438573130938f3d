// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <set>

#include "ending.h"
#include "lumen/core/error.h"
#include "lumen/core/json.h"
#include "lumen/core/parallel.h"
#include "lumen/train/spec.h"
#include "text_bytes.h"

namespace lumen::cli {
namespace {

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

// Every word of the command line that has to be the same on all ranks. Threads
// and instruction set may differ: they never change a bit.
std::vector<std::string> SharedWords(const CommandLine& line) {
  std::vector<std::string> words = {line.command};
  words.insert(words.end(), line.arguments.begin(), line.arguments.end());
  words.insert(words.end(), line.overrides.begin(), line.overrides.end());
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.push_back(flag + value);
  };
  add("--out=", line.flags.out);
  add("--resume=", line.flags.resume);
  add("--max_time=", line.flags.max_time);
  add("--split=", line.flags.split);
  add("--data=", line.flags.data);
  add("--input=", line.flags.input);
  add("--output=", line.flags.output);
  add("--weights=", line.flags.weights);
  return words;
}

// What a rank tells the others about itself.
struct Greeting {
  RankInfo info;
  std::vector<std::string> words;
  std::string error;  // its usage error, or ""
};

std::string Encode(const Greeting& greeting) {
  Json json = Json::Object();
  json.Set("host", greeting.info.host);
  json.Set("processors", greeting.info.processors);
  json.Set("processor_count", greeting.info.processor_count);
  json.Set("threads", greeting.info.threads);
  json.Set("isa", greeting.info.isa);
  json.Set("error", greeting.error);
  Json words = Json::Array();
  for (const std::string& word : greeting.words) words.Append(Json(word));
  json.Set("words", std::move(words));
  return json.Dump();
}

Greeting Decode(const std::string& text) {
  const Json json = Json::Parse(text, "greeting of a rank");
  Greeting greeting;
  greeting.info.host = json.at("host").text();
  greeting.info.processors = json.at("processors").text();
  greeting.info.processor_count =
      static_cast<int>(json.at("processor_count").integer());
  greeting.info.threads = static_cast<int>(json.at("threads").integer());
  greeting.info.isa = static_cast<int>(json.at("isa").integer());
  greeting.error = json.at("error").text();
  for (const Json& word : json.at("words").items()) {
    greeting.words.push_back(word.text());
  }
  return greeting;
}

// The words of `a` that `b` does not have.
std::string Only(const std::vector<std::string>& a,
                 const std::vector<std::string>& b) {
  std::multiset<std::string> rest(b.begin(), b.end());
  std::string text;
  for (const std::string& word : a) {
    const auto found = rest.find(word);
    if (found == rest.end()) {
      text += " " + word;
    } else {
      rest.erase(found);
    }
  }
  return text.empty() ? " nothing more" : text;
}

void RequireAgreement(const std::vector<Greeting>& all) {
  for (const Greeting& greeting : all) {
    if (!greeting.error.empty()) throw SpecError(greeting.error);
  }
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].words == all[0].words) continue;
    throw SpecError(fmt::format(
        "rank {} was started with other arguments than rank 0; expected the "
        "same on all; only rank {} has{}; only rank 0 has{}",
        rank, rank, Only(all[rank].words, all[0].words),
        Only(all[0].words, all[rank].words)));
  }
}

// Ranks that may run on the same processors share them evenly, whether they
// were bound, put into a container or left alone.
int DefaultThreads(const std::vector<Greeting>& all, const RankInfo& mine) {
  const auto sharing =
      std::count_if(all.begin(), all.end(), [&](const Greeting& other) {
        return other.info.host == mine.host &&
               other.info.processors == mine.processors;
      });
  return std::max(1, mine.processor_count / static_cast<int>(sharing));
}

}  // namespace

void StartSession(const CommandLine& line, Session* session) {
  session->communicator = comm::Communicator::NewWorld(line.argc, line.argv);
  comm::Communicator* communicator = session->communicator.get();
  Greeting mine;
  mine.info.host = communicator->host();
  mine.info.processors = ProcessorList();
  mine.info.processor_count = AvailableProcessors();
  mine.info.threads = line.flags.threads;
  mine.words = SharedWords(line);
  mine.error = line.usage_error;
  // What this rank cannot run is told to all before anybody throws.
  try {
    mine.info.isa = static_cast<int>(sparse::ParseIsa(line.flags.isa));
  } catch (const SpecError& error) {
    if (mine.error.empty()) mine.error = error.what();
  }
  std::vector<Greeting> all;
  for (const auto& bytes : communicator->AllGather(ToBytes(Encode(mine)))) {
    all.push_back(Decode(ToText(bytes)));
  }
  RequireAgreement(all);
  int isa = all[0].info.isa;
  for (const Greeting& greeting : all) {
    isa = std::min(isa, greeting.info.isa);
    RankInfo info = greeting.info;
    if (info.threads == 0) info.threads = DefaultThreads(all, info);
    session->ranks.push_back(std::move(info));
  }
  const auto rank = static_cast<size_t>(communicator->rank());
  session->compute.kernels = &sparse::Kernels(static_cast<sparse::Isa>(isa));
  session->compute.parallel = Parallel(session->ranks[rank].threads);
  CheckIeeeArithmetic(session->compute.parallel);
}

std::string ReadSpecOnRoot(comm::Communicator* communicator,
                           const std::string& path) {
  // The first byte says whether what follows is the text or an error.
  std::string message;
  if (communicator->rank() == 0) {
    try {
      message = "t" + train::ReadSpecText(path);
    } catch (const SpecError& error) {
      message = std::string("s") + error.what();
    } catch (const IoError& error) {
      message = std::string("e") + error.what();
    }
  }
  std::vector<std::byte> bytes = ToBytes(message);
  communicator->Broadcast(0, &bytes);
  message = ToText(bytes);
  if (message[0] == 's') throw SpecError(message.substr(1));
  if (message[0] == 'e') throw SharedIoError(message.substr(1));
  return message.substr(1);
}

void RequireSharedFolder(comm::Communicator* communicator,
                         const std::string& folder, std::string_view fix) {
  if (communicator->ranks() == 1) return;
  // A file that only this start can have made; its name is new to the caches of
  // a network file system.
  std::string token;
  if (communicator->rank() == 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    token = fmt::format("{}/.start-{}-{}", folder, getpid(), now.count());
    std::ofstream(token).put('\n');
  }
  std::vector<std::byte> bytes = ToBytes(token);
  communicator->Broadcast(0, &bytes);
  std::error_code ignored;
  const bool seen = std::filesystem::exists(ToText(bytes), ignored);
  std::string blind;
  const auto answers = communicator->AllGather(ToBytes(seen ? "y" : "n"));
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (ToText(answers[rank]) == "y") continue;
    blind += fmt::format("{}{} ({})", blind.empty() ? "" : ", ", rank,
                         communicator->host_of(static_cast<int>(rank)));
  }
  if (communicator->rank() == 0) std::filesystem::remove(token, ignored);
  if (blind.empty()) return;
  throw SharedIoError(fmt::format(
      "{}: not the folder of rank 0 ({}) on rank {}; expected one folder that "
      "all ranks see; {}",
      folder, communicator->host_of(0), blind, fix));
}

int RunTogether(const CommandLine& line,
                const std::function<int(Session*)>& body) {
  Session session;
  try {
    StartSession(line, &session);
    return body(&session);
  } catch (const SpecError& error) {
    return EndTogether(session.communicator.get(), error.what(), 2);
  } catch (const IoError& error) {
    return EndTogether(session.communicator.get(), error.what(), 1);
  } catch (const std::bad_alloc&) {
    return EndAll(session.communicator.get(),
                  "out of memory; lumen plan shows what a rank needs", 1);
  } catch (const std::exception& error) {
    return EndAll(session.communicator.get(), error.what(), 1);
  }
}

bool IsOneOfSeveralRanks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* text = std::getenv(name);
    if (text != nullptr && std::atoi(text) > 1) return true;
  }
  return false;
}

}  // namespace lumen::cli

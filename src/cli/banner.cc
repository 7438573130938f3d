// SPDX-License-Identifier: Apache-2.0
#include "banner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lumen/core/text.h"
#include "lumen/sparse/onednn.h"

namespace lumen::cli {
namespace {

constexpr size_t kShownPlaces = 4;

// Different texts in order of first appearance.
std::vector<std::string> Distinct(const Session& session,
                                  std::string RankInfo::*text) {
  std::vector<std::string> found;
  for (const RankInfo& info : session.ranks) {
    if (std::find(found.begin(), found.end(), info.*text) == found.end()) {
      found.push_back(info.*text);
    }
  }
  return found;
}

std::string Hosts(const Session& session) {
  const auto hosts = Distinct(session, &RankInfo::host);
  if (hosts.size() == 1) return hosts[0];
  return fmt::format("{} hosts ({} .. {})", hosts.size(), hosts.front(),
                     hosts.back());
}

std::string Threads(const Session& session) {
  const auto [least, most] =
      std::minmax_element(session.ranks.begin(), session.ranks.end(),
                          [](const RankInfo& a, const RankInfo& b) {
                            return a.threads < b.threads;
                          });
  if (least->threads == most->threads) {
    return CountOf(least->threads, "thread");
  }
  return fmt::format("{} to {} threads", least->threads, most->threads);
}

// "0-1" when all ranks share them, "0 | 1" in rank order when they are bound.
std::string Processors(const Session& session) {
  auto places = Distinct(session, &RankInfo::processors);
  if (places.size() > kShownPlaces) {
    places.resize(kShownPlaces);
    places.push_back("..");
  }
  return Join(places, " / ");
}

}  // namespace

std::string Banner(const Session& session, int shards) {
  std::set<int> isas;
  for (const RankInfo& info : session.ranks) isas.insert(info.isa);
  const auto ranks = static_cast<int64_t>(session.ranks.size());
  return fmt::format(
      "lumen {} | {} on {} | {} | {} per rank on processors {} | "
      "{}{} | {}, {}",
      LUMEN_VERSION, CountOf(ranks, "rank"), Hosts(session),
      CountOf(shards, "shard"), Threads(session), Processors(session),
      sparse::IsaName(session.compute.kernels->isa),
      isas.size() > 1 ? " (the least of all ranks)" : "",
      session.communicator->library_version(), sparse::OneDnnVersion());
}

std::vector<std::string> BindingWarnings(const Session& session) {
  struct Load {
    int ranks = 0;
    int threads = 0;
    int processors = 0;
  };
  std::map<std::pair<std::string, std::string>, Load> places;
  for (const RankInfo& info : session.ranks) {
    Load& load = places[{info.host, info.processors}];
    ++load.ranks;
    load.threads += info.threads;
    load.processors = info.processor_count;
  }
  std::vector<std::string> warnings;
  for (const auto& [place, load] : places) {
    if (load.threads <= load.processors) continue;
    warnings.push_back(fmt::format(
        "{}: {} threads of {} share {} ({}); start with "
        "--map-by slot:PE=N for N threads per rank, with --bind-to none, or "
        "fewer --threads",
        place.first, load.threads, CountOf(load.ranks, "rank"),
        CountOf(load.processors, "processor"), place.second));
  }
  return warnings;
}

}  // namespace lumen::cli

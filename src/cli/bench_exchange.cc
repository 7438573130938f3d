// SPDX-License-Identifier: Apache-2.0
// Every exchange with every codec on random gradients, beside MPI_Allreduce.
#include <fmt/format.h>

#include "bench.h"
#include "lumen/comm/codec.h"
#include "lumen/comm/exchange_bench.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "output.h"
#include "session.h"

namespace lumen::cli {
namespace {

constexpr int kWireExchanges = 50;

bool Asked(const std::string& wanted, std::string_view name) {
  return wanted.empty() || wanted == name;
}

// The rows to run: one per exchange and codec, a codec "fp32" for those that
// have none to choose.
std::vector<Json> SpecsToRun(const Flags& flags) {
  std::vector<Json> specs;
  for (const comm::ExchangeRow& row : comm::Exchanges()) {
    if (!Asked(flags.exchange, row.type)) continue;
    const Json spec = comm::DefaultExchangeSpec(row);
    if (!spec.Find("codec")) {
      if (Asked(flags.codec, "fp32")) specs.push_back(spec);
      continue;
    }
    for (const std::string_view values : comm::ValueCodeNames()) {
      if (!Asked(flags.codec, values)) continue;
      specs.push_back(spec);
      specs.back().Find("codec")->Set("values", Json(std::string(values)));
      specs.back().Find("compressor")->Set("density", Json(flags.density));
    }
  }
  if (specs.empty()) {
    std::vector<std::string> known;
    for (const auto& row : comm::Exchanges()) known.emplace_back(row.type);
    throw SpecError(fmt::format(
        "bench exchange: no exchange \"{}\" with codec \"{}\"; known: {} with "
        "{}",
        flags.exchange, flags.codec, Join(known), [] {
          std::vector<std::string> names;
          for (auto name : comm::ValueCodeNames()) names.emplace_back(name);
          return Join(names);
        }()));
  }
  return specs;
}

Json ToJson(const comm::ExchangeBenchOptions& options, int ranks,
            const std::string& codec, const Flags& flags,
            const comm::ExchangeBenchResult& r) {
  Json json = Json::Object();
  json.Set("exchange", options.spec.at("type").text());
  json.Set("codec", codec);
  json.Set("ranks", ranks);
  json.Set("shards", options.shards);
  json.Set("elements", options.elements);
  json.Set("density", options.spec.Find("compressor") ? flags.density : 1.0);
  json.Set("phases", flags.phases);
  json.Set("bytes_sent", r.bytes_sent);
  json.Set("bound_bytes", r.bound_bytes);
  json.Set("ratio", r.bound_bytes > 0 ? Json(static_cast<double>(r.bytes_sent) /
                                             r.bound_bytes)
                                      : Json());
  json.Set("ms", r.ms.p50);
  json.Set("ms_min", r.ms.min);
  json.Set("ms_p50", r.ms.p50);
  json.Set("ms_p99", r.ms.p99);
  json.Set("ms_max", r.ms.max);
  json.Set("select_ms", r.select_ms);
  json.Set("encode_ms", r.encode_ms);
  json.Set("send_ms", r.send_ms);
  json.Set("decode_ms", r.decode_ms);
  json.Set("pass_ms", r.pass_ms);
  json.Set("select_encode_passes", (r.select_ms + r.encode_ms) / r.pass_ms);
  json.Set("allreduce_ms", r.allreduce_ms);
  json.Set("speedup", r.allreduce_ms / r.ms.p50);
  json.Set("sum_hash", r.sum_hash);
  return json;
}

constexpr char kRow[] =
    "{:<10} {:<5} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>12} "
    "{:>7} {:>6} {:>10} {:>8}\n";

void SayRow(const Json& json) {
  const auto ms = [&](const char* name) {
    return fmt::format("{:.2f}", json.at(name).number());
  };
  Say(fmt::format(kRow, json.at("exchange").text(), json.at("codec").text(),
                  ms("ms_min"), ms("ms_p50"), ms("ms_p99"), ms("ms_max"),
                  ms("select_ms"), ms("encode_ms"), ms("send_ms"),
                  ms("decode_ms"), json.at("bytes_sent").integer(),
                  json.at("ratio").is_null()
                      ? ""
                      : fmt::format("{:.3f}", json.at("ratio").number()),
                  ms("select_encode_passes"), ms("allreduce_ms"),
                  fmt::format("{:.1f}x", json.at("speedup").number())));
}

void CheckFlags(const Flags& flags) {
  if (flags.phases != "all" && flags.phases != "wire") {
    throw SpecError("--phases=" + flags.phases + ": expected all or wire");
  }
  if (!(flags.density > 0 && flags.density <= 1)) {
    throw SpecError(fmt::format("--density={}: expected above 0, at most 1",
                                flags.density));
  }
  if (flags.rounds < 1) {
    throw SpecError(
        fmt::format("--rounds={}: expected at least 1", flags.rounds));
  }
}

}  // namespace

int RunBenchExchange(const CommandLine& line) {
  CheckFlags(line.flags);
  return RunTogether(line, [&](Session* session) {
    comm::Communicator* communicator = session->communicator.get();
    const int ranks = communicator->ranks();
    const bool speaks = communicator->rank() == 0;
    comm::ExchangeBenchOptions options;
    options.elements = line.flags.elements;
    options.shards = ranks;
    options.rounds = line.flags.rounds;
    options.wire_only = line.flags.phases == "wire";
    if (options.wire_only) options.exchanges = kWireExchanges;
    if (speaks) {
      Say(fmt::format(
          "{} elements, density {}, {}, {} per rank; ms of the slowest rank; "
          "passes: select + encode over y += x\n",
          options.elements, line.flags.density, CountOf(ranks, "rank"),
          CountOf(session->compute.parallel.threads(), "thread")));
      Say(fmt::format(kRow, "exchange", "codec", "min", "p50", "p99", "max",
                      "select", "encode", "send", "decode", "bytes/rank",
                      "of V2", "passes", "Allreduce", "faster"));
    }
    Json results = Json::Array();
    for (const Json& spec : SpecsToRun(line.flags)) {
      if (options.wire_only && !spec.Find("codec")) continue;
      options.spec = spec;
      const Json* codec = spec.Find("codec");
      const auto result =
          comm::RunExchangeBench(options, communicator, session->compute);
      if (!speaks) continue;
      const Json row =
          ToJson(options, ranks, codec ? codec->at("values").text() : "fp32",
                 line.flags, result);
      SayRow(row);
      results.Append(row);
    }
    if (speaks) WriteBenchResults(line, results);
    return 0;
  });
}

}  // namespace lumen::cli

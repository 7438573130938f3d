// SPDX-License-Identifier: Apache-2.0
// The spec of a run: one JSON file that decides the mathematics.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/schema.h"

namespace lumen::train {

// The whole schema, put together from the tables of all modules.
std::span<const Key> SpecKeys();

struct Spec {
  Json json;         // resolved: every default written out
  std::string name;  // file name without directory and extension

  const Json& data() const { return json.at("data"); }
  const Json& model() const { return json.at("model"); }
  const Json& train() const { return json.at("train"); }
  const Json& exchange() const { return json.at("exchange"); }
  const Json& memory() const { return json.at("memory"); }
  const Json& checkpoint() const { return json.at("checkpoint"); }

  uint64_t seed() const;
  int shards() const;
  int64_t global_batch() const;
  int64_t shard_batch() const { return global_batch() / shards(); }

  // The keys that change the mathematics, one "path=value" per line; run
  // length, paths, logging, memory limits and checkpoint intervals are left
  // out. Resume and the ranks of a run compare this together with the data's
  // fingerprint.
  std::string MathematicalText(uint64_t data_fingerprint) const;
};

// The text of a file, which must be a regular one. Throws SpecError, IoError.
std::string ReadSpecText(const std::string& path);
// Reads, applies "path=value" overrides, resolves and cross-checks. Throws
// SpecError, IoError.
Spec LoadSpec(const std::string& path, std::span<const std::string> overrides);
// From text that was resolved before (a checkpoint), or is still unresolved.
Spec ParseSpec(const std::string& text, const std::string& source,
               std::span<const std::string> overrides = {});

// Steps of the whole run and of an interval key ("eval_every").
int64_t TotalSteps(const Spec& spec, int64_t steps_per_epoch);
int64_t IntervalSteps(const Json& interval, int64_t steps_per_epoch);

}  // namespace lumen::train

// SPDX-License-Identifier: Apache-2.0
// The folder of a run: spec.json, log.txt, metrics.jsonl, summary.json,
// checkpoints/ (DESIGN section 9). Only rank 0 owns one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lumen/core/json.h"

namespace lumen::train {

// Log and metrics are append-only: a requeued job goes on in the same files, a
// line torn by a crash is dropped at the next start. Not thread-safe.
class RunFolder {
 public:
  // Creates the folder when it is missing. Throws IoError.
  explicit RunFolder(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  void WriteSpec(const Json& resolved);
  void Log(const std::string& line);  // with a time stamp
  void AppendMetrics(const Json& object);
  void WriteSummary(const Json& summary);

 private:
  struct Files;
  std::string path_;
  std::unique_ptr<Files> files_;
};

}  // namespace lumen::train

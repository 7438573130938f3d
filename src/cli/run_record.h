// SPDX-License-Identifier: Apache-2.0
// A run folder as a report needs it, whether the run ended, goes on or was
// killed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"

namespace lumen::cli {

struct RunRecord {
  enum class State {
    kEnded,    // its newest start wrote summary.json
    kRunning,  // a process has its files open
    kBroken,   // neither: killed, or running where files have no locks
  };

  std::string folder;
  std::string name;  // to show; unlike those of the other runs of a report
  State state = State::kBroken;
  Json spec;     // resolved; null when it cannot be read
  Json summary;  // of the newest start; null when it has not ended
  // The start lines of metrics.jsonl, and the others in order. Every line is an
  // object with an integer "step" and a text "split"; steps that a later start
  // did again are there once, as it did them.
  std::vector<Json> starts;
  std::vector<Json> lines;
  int64_t damaged_lines = 0;
  std::vector<std::string> log;  // the last lines of log.txt
  int64_t warnings = 0;          // in all of log.txt

  const Json* last_line() const;  // nullptr: none yet
  // From the summary, else from the newest line that has it, a start too; null
  // when nothing has.
  const Json* Find(std::string_view key) const;
};

// Torn and damaged lines are counted, not fatal: they are what a killed run
// leaves. Throws IoError when `folder` is not a run folder.
RunRecord ReadRun(const std::string& folder);
// Gives each run the shortest end of its path that no other has.
void NameRuns(std::vector<RunRecord>* runs);

// A number of any kind, else NaN; also for nullptr.
double NumberOf(const Json* json);

}  // namespace lumen::cli

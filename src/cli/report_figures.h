// SPDX-License-Identifier: Apache-2.0
// The numbers of a report, as a person reads them.
#pragma once

#include <string>
#include <vector>

#include "run_record.h"

namespace lumen::cli {

// One number of a run. `raw` is what the files hold, for programs that read the
// page.
struct Figure {
  std::string key;     // "state_hash"
  std::string label;   // "state hash"
  std::string value;   // "" when this run does not have it
  std::string raw;     // JSON
  std::string detail;  // small print: "after 4680 steps", or ""
};
// The same keys in the same order for every run.
std::vector<Figure> Figures(const RunRecord& run);

// "finished", "in progress", ... and whether all is well with it.
struct StateText {
  std::string word;
  std::string detail;
  std::string kind;  // good, busy or bad: a class of the style sheet
};
StateText StateOf(const RunRecord& run);

// Where the seconds went: parts that follow one another, in this order, whose
// sum is the time of the run.
struct TimePart {
  std::string label;
  double seconds = 0;
};
std::vector<TimePart> TimeSplit(const RunRecord& run);

// The first metric of an evaluation line, or of summary.json's "test": what a
// run is judged by. "" when there is only a loss.
std::string MainMetric(const Json& evaluation);
// Every other key of metrics.jsonl is a metric of the task.
bool IsMetric(const std::string& key);
// Four significant digits.
std::string NumberText(double value);

}  // namespace lumen::cli

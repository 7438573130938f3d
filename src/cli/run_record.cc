// SPDX-License-Identifier: Apache-2.0
#include "run_record.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/text.h"

namespace lumen::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLogLines = 200;

std::string SplitOf(const Json& line) { return line.at("split").text(); }
int64_t StepOf(const Json& line) { return line.at("step").integer(); }

bool IsLine(const Json& json) {
  if (!json.is_object()) return false;
  const Json* step = json.Find("step");
  const Json* split = json.Find("split");
  return step != nullptr && step->kind() == Json::Kind::kInteger &&
         split != nullptr && split->kind() == Json::Kind::kText;
}

// A start goes on from a checkpoint: what was done after it did not happen.
void AddStart(Json start, RunRecord* run) {
  std::erase_if(run->lines,
                [&](const Json& line) { return StepOf(line) > StepOf(start); });
  run->starts.push_back(std::move(start));
}

// A split has one line per step: an evaluation that is done again counts.
void AddLine(Json line, RunRecord* run) {
  for (auto old = run->lines.rbegin();
       old != run->lines.rend() && StepOf(*old) == StepOf(line); ++old) {
    if (SplitOf(*old) != SplitOf(line)) continue;
    *old = std::move(line);
    return;
  }
  run->lines.push_back(std::move(line));
}

void ReadMetrics(const std::string& path, RunRecord* run) {
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    Json line;
    try {
      line = Json::Parse(text, path);
    } catch (const SpecError&) {
      // Half a line: the run was killed, or is writing it now.
    }
    if (!IsLine(line)) {
      ++run->damaged_lines;
    } else if (SplitOf(line) == "start") {
      AddStart(std::move(line), run);
    } else {
      AddLine(std::move(line), run);
    }
  }
}

void ReadLog(const std::string& path, RunRecord* run) {
  std::ifstream file(path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    if (line.find("  warning: ") != std::string::npos) ++run->warnings;
    last.push_back(Printable(line));
    if (last.size() > kLogLines) last.pop_front();
  }
  run->log.assign(last.begin(), last.end());
}

// Null when the file is not there or not whole.
Json ReadObject(const std::string& path) {
  try {
    Json json = Json::ParseFile(path);
    if (json.is_object()) return json;
  } catch (const SpecError&) {
  } catch (const IoError&) {
  }
  return Json();
}

// summary.json of an earlier start does not tell about this one.
bool IsOfNewestStart(const Json& summary, const RunRecord& run) {
  if (!summary.is_object()) return false;
  if (const Json* last = run.last_line()) {
    if (!(static_cast<double>(StepOf(*last)) <=
          NumberOf(summary.Find("steps")))) {
      return false;
    }
  }
  if (run.starts.empty()) return true;
  const Json* mine = run.starts.back().Find("resumed_from");
  const Json* its = summary.Find("resumed_from");
  return mine == nullptr || its == nullptr || mine->Dump() == its->Dump();
}

std::string LastParts(const fs::path& path, size_t parts) {
  std::vector<std::string> all;
  for (const fs::path& part : path) all.push_back(part.string());
  parts = std::min(parts, all.size());
  fs::path result;
  for (size_t i = all.size() - parts; i < all.size(); ++i) result /= all[i];
  return Printable(result.string());
}

fs::path Absolute(const std::string& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

const Json* RunRecord::last_line() const {
  return lines.empty() ? nullptr : &lines.back();
}

const Json* RunRecord::Find(std::string_view key) const {
  if (const Json* found = summary.is_object() ? summary.Find(key) : nullptr) {
    return found;
  }
  for (const std::vector<Json>* list : {&lines, &starts}) {
    for (auto line = list->rbegin(); line != list->rend(); ++line) {
      const Json* found = line->Find(key);
      if (found != nullptr && !found->is_null()) return found;
    }
  }
  return nullptr;
}

RunRecord ReadRun(const std::string& folder) {
  if (!fs::exists(folder)) {
    throw IoError(folder +
                  ": no such folder; expected a run folder, which lumen train "
                  "writes to --out");
  }
  if (!fs::exists(folder + "/metrics.jsonl") &&
      !fs::exists(folder + "/summary.json")) {
    throw IoError(folder +
                  ": not a run folder, it holds neither metrics.jsonl nor "
                  "summary.json; expected the folder that lumen train was "
                  "given as --out");
  }
  RunRecord run;
  run.folder = folder;
  run.spec = ReadObject(folder + "/spec.json");
  // Asked first: a run that ends meanwhile has all its lines below.
  const bool in_use = AppendFile::IsInUse(folder + "/metrics.jsonl");
  ReadMetrics(folder + "/metrics.jsonl", &run);
  ReadLog(folder + "/log.txt", &run);
  Json summary = ReadObject(folder + "/summary.json");
  if (in_use) {
    run.state = RunRecord::State::kRunning;
  } else if (IsOfNewestStart(summary, run)) {
    run.state = RunRecord::State::kEnded;
    run.summary = std::move(summary);
  }
  return run;
}

void NameRuns(std::vector<RunRecord>* runs) {
  for (RunRecord& run : *runs) {
    const fs::path path = Absolute(run.folder);
    const auto parts =
        static_cast<size_t>(std::distance(path.begin(), path.end()));
    for (size_t length = 1; length <= parts; ++length) {
      run.name = LastParts(path, length);
      const auto same = std::count_if(
          runs->begin(), runs->end(), [&](const RunRecord& other) {
            return LastParts(Absolute(other.folder), length) == run.name;
          });
      if (same == 1) break;
    }
  }
}

double NumberOf(const Json* json) {
  const bool number =
      json != nullptr && (json->kind() == Json::Kind::kInteger ||
                          json->kind() == Json::Kind::kNumber);
  return number ? json->number() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lumen::cli

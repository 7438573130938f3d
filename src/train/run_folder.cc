// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/run_folder.h"

#include <ctime>
#include <filesystem>
#include <sstream>

#include "lumen/core/error.h"
#include "lumen/core/file.h"

namespace lumen::train {
namespace {

std::string TimeStamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

const std::string& Created(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw IoError(path +
                  ": cannot create the run folder (--out): " + error.message());
  }
  return path;
}

}  // namespace

struct RunFolder::Files {
  explicit Files(const std::string& path)
      : log(path + "/log.txt"), metrics(path + "/metrics.jsonl") {}
  AppendFile log;
  AppendFile metrics;
};

RunFolder::RunFolder(const std::string& path)
    : path_(path), files_(std::make_unique<Files>(Created(path))) {}

RunFolder::~RunFolder() = default;

void RunFolder::WriteSpec(const Json& resolved) {
  WriteFileAtomically(path_ + "/spec.json", resolved.Dump(2));
}

void RunFolder::Log(const std::string& line) {
  // Messages of several lines stay readable; a line of the file has no newline.
  std::istringstream text(line);
  std::string part;
  for (std::string head = TimeStamp(); std::getline(text, part);
       head.assign(head.size(), ' ')) {
    files_->log.Append(head + "  " + part);
  }
}

void RunFolder::AppendMetrics(const Json& object) {
  files_->metrics.Append(object.Dump());
}

void RunFolder::WriteSummary(const Json& summary) {
  WriteFileAtomically(path_ + "/summary.json", summary.Dump(2));
}

}  // namespace lumen::train

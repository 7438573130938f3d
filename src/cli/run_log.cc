// SPDX-License-Identifier: Apache-2.0
#include "run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glog/logging.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lumen/core/error.h"

namespace lumen::cli {
namespace {

// A signal handler can only reach what is global.
int g_log_descriptor = -1;

void WriteAll(int descriptor, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, data, size);
    if (written <= 0) return;
    data += written;
    size -= static_cast<size_t>(written);
  }
}

// Runs inside the handler of a crash: write(2) only. The log comes first, since
// stderr may be a pipe that nobody reads any more.
void WriteCrash(const char* data, size_t size) {
  if (g_log_descriptor >= 0) WriteAll(g_log_descriptor, data, size);
  WriteAll(STDERR_FILENO, data, size);
}

}  // namespace

void LogToFolder(const std::string& out, int rank) {
  const std::string folder = out + "/logs";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw IoError(folder +
                  ": cannot create the run folder (--out): " + error.message());
  }
  const std::string path = fmt::format("{}/rank-{:04}.log", folder, rank);
  g_log_descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (g_log_descriptor < 0) {
    throw IoError(path + ": cannot write: " + std::strerror(errno));
  }
  google::InstallFailureWriter(WriteCrash);
  FLAGS_logtostderr = false;
  FLAGS_minloglevel = google::GLOG_INFO;
  FLAGS_stderrthreshold = google::GLOG_FATAL;
  FLAGS_timestamp_in_logfile_name = false;
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    google::SetLogDestination(severity, severity == 0 ? path.c_str() : "");
    google::SetLogSymlink(severity, "");
  }
}

void LogError(const std::string& message) {
  if (g_log_descriptor < 0) return;
  LOG(ERROR) << message;
  google::FlushLogFiles(google::GLOG_INFO);
}

}  // namespace lumen::cli

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_writer.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/hash.h"
#include "lumen/core/text.h"

namespace lumen::train {
namespace {

namespace fs = std::filesystem;

// What a rank tells the others at the end: an error, or its files.
std::vector<std::byte> Report(const std::string& error,
                              const std::vector<CheckpointFile>& files) {
  Json json = ManifestJson({.files = files});
  json.Set("error", error);
  const std::string text = json.Dump();
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string folder, int64_t keep,
                                   comm::Communicator* communicator)
    : folder_(std::move(folder)), keep_(keep), communicator_(communicator) {}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Begin(int64_t step, const Json& best,
                             std::vector<PendingFile> files) {
  CHECK(!active());
  step_ = step;
  best_ = best;
  path_ = folder_ + "/step-" + std::to_string(step);
  if (!removed_unfinished_ && communicator_->rank() == 0) RemoveUnfinished();
  removed_unfinished_ = true;
  const int64_t bytes_of_all = SumOverRanks(files);
  written_.clear();
  error_.clear();
  failed_ = false;
  writing_ = true;
  thread_ = std::thread([this, bytes_of_all, pending = std::move(files)] {
    try {
      RequireSpace(bytes_of_all);
      WriteFiles(pending);
    } catch (const std::exception& error) {
      error_ = error.what();
      failed_ = true;
    }
    writing_ = false;
  });
}

int64_t CheckpointWriter::SumOverRanks(const std::vector<PendingFile>& files) {
  int64_t mine = 0;
  for (const PendingFile& file : files) mine += file.bytes;
  int64_t sum = 0;
  for (const auto& bytes : communicator_->AllGather(
           std::as_bytes(std::span<const int64_t>(&mine, 1)))) {
    int64_t of_rank = 0;
    std::memcpy(&of_rank, bytes.data(), sizeof(of_rank));
    sum += of_rank;
  }
  return sum;
}

// Half a checkpoint on a full disk helps nobody. Quotas are not seen here; they
// show as a failed write.
void CheckpointWriter::RequireSpace(int64_t bytes) const {
  std::error_code code;
  const fs::space_info space = fs::space(folder_, code);
  if (code || space.available >= static_cast<uintmax_t>(bytes)) return;
  throw IoError(fmt::format(
      "{}: {} to write and {} free: {}; free some space, or set a lower "
      "checkpoint.keep",
      folder_, FormatBytes(bytes),
      FormatBytes(static_cast<int64_t>(space.available)),
      std::strerror(ENOSPC)));
}

// What an earlier start was killed in the middle of.
void CheckpointWriter::RemoveUnfinished() const {
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  const std::string run = fs::path(folder_).parent_path().string();
  for (const std::string& path : ListCheckpoints(run)) {
    if (!fs::exists(path + "/MANIFEST.json")) fs::remove_all(path, ignored);
  }
}

void CheckpointWriter::WriteFiles(const std::vector<PendingFile>& files) {
  std::error_code code;
  fs::create_directories(path_, code);
  if (code) throw IoError(path_ + ": cannot create: " + code.message());
  // A damaged checkpoint of the same step may lie here: it stops counting
  // first.
  fs::remove(path_ + "/MANIFEST.json", code);
  for (const PendingFile& file : files) {
    const std::string target = path_ + "/" + file.name;
    const std::string temporary = target + ".tmp";
    try {
      file.write(temporary);
      CheckpointFile entry{.name = file.name};
      entry.bytes = static_cast<int64_t>(fs::file_size(temporary));
      entry.digest = HexDigest(HashFile(temporary));
      fs::rename(temporary, target);
      written_.push_back(std::move(entry));
    } catch (...) {
      fs::remove(temporary, code);
      throw;
    }
  }
  FsyncDirectory(path_);
}

void CheckpointWriter::Complete() {
  CHECK(active());
  thread_.join();
  std::vector<CheckpointFile> files;
  std::string first_error;
  for (const auto& bytes : communicator_->AllGather(Report(error_, written_))) {
    const Json report =
        Json::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                    "checkpoint report");
    if (first_error.empty()) first_error = report.at("error").text();
    for (const Json& file : report.at("files").items()) {
      files.push_back({file.at("name").text(), file.at("bytes").integer(),
                       file.at("digest").text()});
    }
  }
  if (first_error.empty() && communicator_->rank() == 0) {
    try {
      WriteFileAtomically(path_ + "/MANIFEST.json",
                          ManifestJson({step_, files, best_}).Dump(2));
      FsyncDirectory(folder_);
    } catch (const IoError& error) {
      first_error = error.what();
    }
  }
  // The manifest is rank 0's to write: all learn how that went.
  const auto* text = reinterpret_cast<const std::byte*>(first_error.data());
  std::vector<std::byte> verdict(text, text + first_error.size());
  communicator_->Broadcast(0, &verdict);
  if (!verdict.empty()) {
    std::error_code ignored;
    if (communicator_->rank() == 0) fs::remove_all(path_, ignored);
    throw SharedIoError(
        "checkpoint of step " + std::to_string(step_) +
        " failed, older ones are kept: " +
        std::string(reinterpret_cast<const char*>(verdict.data()),
                    verdict.size()));
  }
  last_complete_ = path_;
  if (communicator_->rank() == 0) {
    Prune(best_.is_object() ? best_.at("step").integer() : -1);
  }
}

void CheckpointWriter::Prune(int64_t best_step) {
  const std::string run = fs::path(folder_).parent_path().string();
  const std::string best = folder_ + "/step-" + std::to_string(best_step);
  int64_t kept = 0;
  for (const std::string& path : ListCheckpoints(run)) {
    const bool whole = fs::exists(path + "/MANIFEST.json");
    if (whole && (kept++ < keep_ || path == best)) continue;
    // The manifest goes first: a removal cut short leaves no half checkpoint.
    std::error_code ignored;
    fs::remove(path + "/MANIFEST.json", ignored);
    fs::remove_all(path, ignored);
  }
}

}  // namespace lumen::train

// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints in the background, from a snapshot.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/core/json.h"
#include "lumen/train/checkpoint.h"

namespace lumen::train {

// One file of this rank: `write` creates it under the given temporary path.
// `bytes` is about its size, to be compared with the space that is free.
struct PendingFile {
  std::string name;
  int64_t bytes = 0;
  std::function<void(const std::string& path)> write;
};

// Begin and Complete are collective; all else is local. The files of a
// checkpoint get their names one by one (temporary name, fsync, rename, fsync
// of the folder); MANIFEST.json comes last, so an interrupted one never counts.
class CheckpointWriter {
 public:
  // `folder` is RUN/checkpoints; `keep` newest ones survive, and the best.
  CheckpointWriter(std::string folder, int64_t keep,
                   comm::Communicator* communicator);
  ~CheckpointWriter();  // waits for the thread
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Starts writing; fails in the background when the files of all ranks need
  // more space than there is. The first call removes what an earlier start left
  // unfinished. REQUIRES: not active(). What `files` refer to must hold
  // still until Complete.
  void Begin(int64_t step, const Json& best, std::vector<PendingFile> files);
  bool active() const { return thread_.joinable(); }
  // Is the background part of this rank still at work; did it fail?
  bool writing() const { return writing_.load(); }
  bool failed() const { return failed_.load(); }
  // Waits for all ranks, writes the manifest and removes old checkpoints. When
  // a rank failed (disk full), the unfinished checkpoint is removed, older ones
  // stay, and every rank throws IoError with the first rank's reason.
  void Complete();
  const std::string& last_complete() const { return last_complete_; }

 private:
  int64_t SumOverRanks(const std::vector<PendingFile>& files);
  void RequireSpace(int64_t bytes) const;
  void RemoveUnfinished() const;
  void WriteFiles(const std::vector<PendingFile>& files);
  void Prune(int64_t best_step);

  std::string folder_;
  int64_t keep_;
  comm::Communicator* communicator_;
  int64_t step_ = 0;
  Json best_;
  bool removed_unfinished_ = false;
  std::string path_;
  std::vector<CheckpointFile> written_;
  std::string error_;
  std::string last_complete_;
  std::atomic<bool> writing_{false};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace lumen::train

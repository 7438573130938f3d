// SPDX-License-Identifier: Apache-2.0
// What a run tells: the run folder and the observer, on rank 0; nothing
// elsewhere.
#pragma once

#include <memory>
#include <string>

#include "lumen/comm/communicator.h"
#include "lumen/train/run_folder.h"
#include "lumen/train/trainer.h"

namespace lumen::train {

class Journal {
 public:
  // Creates the run folder on rank 0, unless `out` is empty. Throws IoError
  // there.
  Journal(const std::string& out, const comm::Communicator* communicator,
          Observer* observer);

  void Message(const std::string& line);
  void Warning(const std::string& line);
  // nullptr on other ranks, or without a run folder.
  RunFolder* folder() { return folder_.get(); }
  Observer* observer() { return observer_; }

 private:
  std::unique_ptr<RunFolder> folder_;
  Observer* observer_ = nullptr;
};

}  // namespace lumen::train

// SPDX-License-Identifier: Apache-2.0
#include "journal.h"

namespace lumen::train {

Journal::Journal(const std::string& out, const comm::Communicator* communicator,
                 Observer* observer) {
  if (communicator->rank() != 0) return;
  if (!out.empty()) folder_ = std::make_unique<RunFolder>(out);
  observer_ = observer;
}

void Journal::Message(const std::string& line) {
  if (folder_) folder_->Log(line);
  if (observer_) observer_->OnMessage(line);
}

void Journal::Warning(const std::string& line) {
  if (folder_) folder_->Log("warning: " + line);
  if (observer_) observer_->OnWarning(line);
}

}  // namespace lumen::train

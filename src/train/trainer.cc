// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/trainer.h"

#include <memory>
#include <utility>

#include "lumen/train/run_folder.h"
#include "run.h"
#include "start.h"

namespace lumen::train {

const char* StoppedByName(StoppedBy stopped_by) {
  switch (stopped_by) {
    case StoppedBy::kFinished:
      return "finished";
    case StoppedBy::kSignal:
      return "signal";
    case StoppedBy::kMaxTime:
      return "max_time";
    case StoppedBy::kNan:
      return "nan";
    case StoppedBy::kError:
      return "error";
  }
  return "error";
}

RunResult RunTraining(const Spec& spec, const RunOptions& options,
                      comm::Communicator* communicator,
                      const sparse::Compute& compute, Observer* observer) {
  Journal journal(options.out, communicator, observer);
  Start start = NewStart(spec, options, communicator, compute, &journal);
  Run run(spec, options, std::move(start), communicator, compute, &journal);
  return run.ToEnd();
}

}  // namespace lumen::train

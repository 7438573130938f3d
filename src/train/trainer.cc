// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/trainer.h"

#include <algorithm>
#include <chrono>
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
  const auto began = std::chrono::steady_clock::now();
  Journal journal(options.out, communicator, observer);
  Start start = NewStart(spec, options, communicator, compute, &journal);
  RunOptions rest = options;
  if (rest.max_seconds > 0) {
    const std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - began;
    rest.max_seconds = std::max(1e-3, rest.max_seconds - passed.count());
  }
  Run run(spec, rest, std::move(start), communicator, compute, &journal);
  return run.ToEnd();
}

}  // namespace lumen::train

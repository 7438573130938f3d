// SPDX-License-Identifier: Apache-2.0
// Tells a person how training goes: a bar on a terminal, timed lines elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "lumen/train/trainer.h"

namespace lumen::cli {

class Reporter : public train::Observer {
 public:
  Reporter();
  void OnMessage(const std::string& line) override;
  void OnWarning(const std::string& line) override;
  void OnPlan(const train::Plan& plan) override;
  void OnStep(const train::Progress& progress) override;
  void OnEvaluation(const train::Progress& progress, const std::string& split,
                    const Json& metrics) override;

 private:
  using Clock = std::chrono::steady_clock;

  void ClearBar();
  void DrawBar(const train::Progress& progress);

  bool terminal_;
  bool drawn_ = false;
  Clock::time_point next_;
};

// The layer table and the needs of a rank, as lumen plan and train print them.
std::string PlanText(const train::Plan& plan);

}  // namespace lumen::cli

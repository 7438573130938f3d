// SPDX-License-Identifier: Apache-2.0
#include "reporter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "lumen/core/text.h"
#include "output.h"

namespace lumen::cli {
namespace {

constexpr auto kBarInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(5);

int TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 80;
  }
  return size.ws_col;
}

// mpirun gives its first rank a pseudo-terminal even in a batch job; what
// counts is where mpirun itself, the parent, writes to.
bool WritesToTerminal() {
  if (!isatty(STDOUT_FILENO)) return false;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return true;
  const std::string path = fmt::format("/proc/{}/fd/1", getppid());
  const int descriptor = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool terminal = isatty(descriptor);
  close(descriptor);
  return terminal;
}

// How much less than a dense exchange: "1/20", or "x 1.3" when it is more.
std::string RatioText(double dense_over_sent) {
  return dense_over_sent >= 1.5 ? fmt::format("1/{:.0f}", dense_over_sent)
                                : fmt::format("x {:.2g}", 1 / dense_over_sent);
}

std::string State(const train::Progress& p) {
  std::string text = fmt::format("loss {:.4f}", p.loss);
  if (!p.metric_name.empty()) {
    text += fmt::format("  {} {:.3f}", p.metric_name, p.metric);
  }
  text +=
      fmt::format("  {} samples/s", FormatCount(std::llround(p.samples_per_s)));
  if (p.wire_ratio > 0) text += "  wire " + RatioText(p.wire_ratio);
  return text + "  ETA " + FormatSeconds(p.eta_seconds);
}

std::string Percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace

Reporter::Reporter() : terminal_(WritesToTerminal()), next_(Clock::now()) {}

void Reporter::ClearBar() {
  if (drawn_) Say("\r\x1b[K");
  drawn_ = false;
}

void Reporter::OnMessage(const std::string& line) {
  ClearBar();
  Say(line + "\n");
}

void Reporter::OnWarning(const std::string& line) {
  ClearBar();
  Say("warning: " + line + "\n");
}

void Reporter::OnPlan(const train::Plan& plan) {
  ClearBar();
  Say(PlanText(plan));
}

void Reporter::DrawBar(const train::Progress& p) {
  const double share =
      p.total_steps > 0
          ? static_cast<double>(p.step) / static_cast<double>(p.total_steps)
          : 1.0;
  const std::string state =
      fmt::format("  {}/{}  {}", p.step, p.total_steps, State(p));
  const int width = TerminalWidth() - 1;
  const int cells =
      std::clamp(width - static_cast<int>(state.size()) - 2, 0, 30);
  std::string line;
  if (cells >= 5) {
    const int full = static_cast<int>(share * cells);
    line = "[" + std::string(static_cast<size_t>(full), '#') +
           std::string(static_cast<size_t>(cells - full), '.') + "]";
  }
  line += state;
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(0, width))));
  Say("\r\x1b[K" + line);
  drawn_ = true;
}

void Reporter::OnStep(const train::Progress& progress) {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? Clock::duration(kBarInterval)
                           : Clock::duration(kLineInterval));
  if (terminal_) {
    DrawBar(progress);
  } else {
    OnMessage(fmt::format("step {}/{}  epoch {}  {}", progress.step,
                          progress.total_steps, progress.epoch,
                          State(progress)));
  }
}

void Reporter::OnEvaluation(const train::Progress& progress,
                            const std::string& split, const Json& metrics) {
  std::string line = fmt::format("step {}/{}  {}:", progress.step,
                                 progress.total_steps, split);
  for (const auto& [name, value] : metrics.members()) {
    if (name == "samples" || value.is_null()) continue;
    line += fmt::format("  {} {:.4f}", name, value.number());
  }
  OnMessage(line);
}

std::string PlanText(const train::Plan& plan) {
  std::string text = fmt::format(
      "  {:<12} {:<9} {:>10} {:>12} {:>12} {:>8} {:>12}\n", "layer", "type",
      "output", "parameters", "nonzeros", "density", "FLOP/sample");
  for (const train::LayerPlan& layer : plan.layers) {
    text += fmt::format("  {:<12} {:<9} {:>10}", layer.name, layer.type,
                        layer.output_shape);
    if (layer.parameters > 0) {
      text += fmt::format(" {:>12} {:>12} {:>8} {:>12}", layer.parameters,
                          layer.nnz,
                          Percent(static_cast<double>(layer.nnz) /
                                  static_cast<double>(layer.parameters)),
                          FormatCount(layer.flops_executed));
    }
    text += "\n";
  }
  text += fmt::format(
      "  {} of {} weights exist ({})\n", FormatCount(plan.nnz),
      FormatCount(plan.parameters),
      Percent(static_cast<double>(plan.nnz) /
              static_cast<double>(std::max<int64_t>(1, plan.parameters))));
  text +=
      fmt::format("  memory per rank: {} (", FormatBytes(plan.memory_bytes()));
  bool first = true;
  for (const train::MemoryItem& item : plan.memory) {
    if (item.bytes == 0) continue;
    text += fmt::format("{}{} {}", first ? "" : ", ", item.name,
                        FormatBytes(item.bytes));
    first = false;
  }
  text += ")\n";
  if (!plan.cuts.empty()) {
    int64_t flops = 0;
    for (const train::LayerPlan& layer : plan.layers) {
      flops += layer.flops_executed;
    }
    text += fmt::format(
        "  layers up to {} are computed again in the backward pass, in {}: {} "
        "more work\n",
        plan.layers[static_cast<size_t>(plan.cuts.back())].name,
        CountOf(std::ssize(plan.cuts), "segment"),
        Percent(static_cast<double>(plan.flops_again) /
                static_cast<double>(std::max<int64_t>(1, flops))));
  }
  if (plan.ranks > 1) {
    text += fmt::format(
        "  wire per step, all ranks: {} instead of {} dense ({})\n",
        FormatBytes(static_cast<int64_t>(plan.wire_bytes_step)),
        FormatBytes(static_cast<int64_t>(plan.wire_bytes_dense_step)),
        RatioText(plan.wire_bytes_dense_step /
                  std::max(1.0, plan.wire_bytes_step)));
  }
  return text;
}

}  // namespace lumen::cli

// SPDX-License-Identifier: Apache-2.0
#include "report_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lumen/core/text.h"

namespace lumen::cli {
namespace {

// Of every line of metrics.jsonl (DESIGN, "The command line"), whatever the
// task is.
constexpr std::string_view kCommonKeys[] = {
    "step",       "epoch",          "split",       "loss",
    "lr",         "samples_per_s",  "seconds",     "samples",
    "wire_bytes", "flops_executed", "flops_dense", "wire_bytes_dense",
    "ranks",      "resumed_from",   "layers"};

// Seconds that are part of "seconds". Others with such names are shown as they
// are called.
struct Wait {
  std::string_view key;
  std::string_view label;
};
constexpr Wait kWaits[] = {
    {"exchange_wait_s", "exchange that nothing hides, and update"},
    {"data_wait_s", "waiting for data"},
};

std::string Count(double value) { return FormatCount(std::llround(value)); }
std::string Bytes(double value) { return FormatBytes(std::llround(value)); }
std::string Times(double value) {
  return fmt::format("{:.{}f} times", value, value < 9.95 ? 1 : 0);
}

std::string TextOf(const RunRecord& run, std::string_view key) {
  const Json* json = run.Find(key);
  const bool is_text = json != nullptr && json->kind() == Json::Kind::kText;
  return is_text ? json->text() : "";
}

// A figure that shows one key with a formatter; empty when it is not a number.
Figure NumberFigure(const RunRecord& run, const std::string& key,
                    const std::string& label, std::string (*format)(double)) {
  Figure figure{.key = key, .label = label};
  const Json* json = run.Find(key);
  const double value = NumberOf(json);
  if (!std::isfinite(value)) return figure;
  figure.value = format(value);
  figure.raw = json->Dump();
  return figure;
}

// The newest evaluation: of the validation split where there is one.
const Json* NewestEvaluation(const RunRecord& run) {
  for (const char* split : {"valid", "test"}) {
    for (auto line = run.lines.rbegin(); line != run.lines.rend(); ++line) {
      if (line->at("split").text() == split) return &*line;
    }
  }
  return nullptr;
}

// summary.json says {step, split, metric, value} with a validation split, else
// the metrics of the test split.
Figure Best(const RunRecord& run) {
  Figure figure{.key = "best", .label = "best metric"};
  const Json* best =
      run.summary.is_object() ? run.summary.Find("best") : nullptr;
  if (best == nullptr || !best->is_object()) best = NewestEvaluation(run);
  if (best == nullptr) return figure;
  const Json* name = best->Find("metric");
  const bool named = name != nullptr && name->kind() == Json::Kind::kText;
  std::string metric = named ? name->text() : MainMetric(*best);
  if (metric.empty()) metric = "loss";
  const Json* value = best->Find(named ? "value" : metric);
  if (!std::isfinite(NumberOf(value))) return figure;
  const Json* split = best->Find("split");
  const bool has_split = split != nullptr && split->kind() == Json::Kind::kText;
  figure.value = NumberText(value->number());
  figure.raw = value->Dump();
  figure.detail = metric + ", " + (has_split ? split->text() : "test");
  const Json* step = best->Find("step");
  if (std::isfinite(NumberOf(step))) figure.detail += ", step " + step->Dump();
  return figure;
}

Figure Weights(const RunRecord& run) {
  Figure figure = NumberFigure(run, "nnz", "weights", Count);
  const double dense = NumberOf(run.Find("parameters"));
  const double present = NumberOf(run.Find("nnz"));
  if (dense > 0 && !figure.value.empty()) {
    figure.detail = fmt::format("of {}, {:.1f} % sparse", Count(dense),
                                100 * (1 - present / dense));
  }
  return figure;
}

Figure Compression(const RunRecord& run) {
  Figure figure{.key = "compression", .label = "compression of the exchange"};
  const double sent = NumberOf(run.Find("wire_bytes"));
  const double dense = NumberOf(run.Find("wire_bytes_dense"));
  if (!(sent > 0 && dense > 0)) return figure;
  figure.value = Times(dense / sent);
  figure.raw = Json(dense / sent).Dump();
  figure.detail = Bytes(sent) + " instead of " + Bytes(dense);
  return figure;
}

Figure Work(const RunRecord& run) {
  Figure figure = NumberFigure(run, "flops_executed", "executed work",
                               [](double v) { return Count(v) + "FLOP"; });
  const double dense = NumberOf(run.Find("flops_dense"));
  const double executed = NumberOf(run.Find("flops_executed"));
  if (executed > 0 && dense > 0) {
    figure.detail = "dense: " + Times(dense / executed) + " that";
  }
  return figure;
}

Figure Time(const RunRecord& run) {
  Figure figure = NumberFigure(run, "seconds", "training time", FormatSeconds);
  const Json* cost = run.Find("to_best");
  const bool is_cost = cost != nullptr && cost->is_object();
  const double seconds = is_cost ? NumberOf(cost->Find("seconds")) : NAN;
  const double joules = is_cost ? NumberOf(cost->Find("joules")) : NAN;
  if (std::isfinite(seconds)) {
    figure.detail = FormatSeconds(seconds) + " to the best metric";
  }
  if (std::isfinite(joules)) figure.detail += ", " + Count(joules) + "J";
  return figure;
}

Figure Memory(const RunRecord& run) {
  Figure figure =
      NumberFigure(run, "peak_rss_bytes", "peak memory per rank", Bytes);
  const double planned = NumberOf(run.Find("planned_bytes"));
  if (planned > 0) figure.detail = "planned: " + Bytes(planned);
  return figure;
}

Figure Steps(const RunRecord& run) {
  Figure figure = NumberFigure(run, "steps", "steps", Count);
  const Json* last = run.last_line();
  if (figure.value.empty() && last != nullptr) {
    figure.raw = last->at("step").Dump();
    figure.value = figure.raw;
  }
  const double epoch = last == nullptr ? NAN : NumberOf(last->Find("epoch"));
  if (std::isfinite(epoch)) {
    figure.detail = NumberText(epoch) + (epoch == 1 ? " epoch" : " epochs");
  }
  return figure;
}

Figure Machine(const RunRecord& run) {
  Figure figure = NumberFigure(run, "ranks", "ranks", Count);
  const double threads = NumberOf(run.Find("threads"));
  if (std::isfinite(threads)) {
    figure.detail = CountOf(std::llround(threads), "thread") + " each";
  }
  if (const std::string isa = TextOf(run, "isa"); !isa.empty()) {
    figure.detail += ", " + isa;
  }
  const double shards = NumberOf(run.Find("shards"));
  if (std::isfinite(shards)) {
    figure.detail += ", " + CountOf(std::llround(shards), "shard");
  }
  return figure;
}

Figure Hash(const RunRecord& run) {
  Figure figure{.key = "state_hash", .label = "state hash"};
  figure.value = TextOf(run, "state_hash");
  if (!figure.value.empty()) figure.raw = Json(figure.value).Dump();
  figure.detail = figure.value.empty() ? "" : "equal bits, equal hash";
  return figure;
}

Figure Bad(const RunRecord& run) {
  Figure figure = NumberFigure(run, "bad_steps", "skipped steps", Count);
  const double samples = NumberOf(run.Find("bad_samples"));
  if (samples > 0) {
    figure.detail = CountOf(std::llround(samples), "bad sample") + " skipped";
  }
  // Nothing was skipped: nothing to say.
  if (figure.raw == "0" && figure.detail.empty()) figure.value.clear();
  return figure;
}

}  // namespace

std::vector<Figure> Figures(const RunRecord& run) {
  Figure speed =
      NumberFigure(run, "samples_per_s", "samples per second", Count);
  Figure loss = NumberFigure(run, "train_loss", "training loss", NumberText);
  if (loss.value.empty()) {
    loss = NumberFigure(run, "loss", "training loss", NumberText);
    loss.key = "train_loss";
  }
  return {Best(run),        loss,         Time(run), speed,
          Compression(run), Weights(run), Work(run), Memory(run),
          Steps(run),       Machine(run), Hash(run), Bad(run)};
}

StateText StateOf(const RunRecord& run) {
  const Json* last = run.last_line();
  const std::string at = last == nullptr
                             ? "no step was logged yet"
                             : "last logged step " + last->at("step").Dump();
  if (run.state == RunRecord::State::kRunning)
    return {"in progress", at, "busy"};
  if (run.state == RunRecord::State::kBroken) {
    return {"not ended",
            at + "; killed, or still running where nobody can tell; the same "
                 "lumen train goes on from the newest checkpoint",
            "bad"};
  }
  const std::string by = TextOf(run, "stopped_by");
  if (by == "finished") return {"finished", "", "good"};
  if (by == "signal" || by == "max_time") {
    return {"stopped by " + by,
            "the same lumen train goes on from the newest checkpoint", "busy"};
  }
  return {"failed: " + by, "log.txt says why", "bad"};
}

std::vector<TimePart> TimeSplit(const RunRecord& run) {
  const double total = NumberOf(run.Find("seconds"));
  if (!(total > 0)) return {};
  std::vector<TimePart> parts;
  double rest = total;
  const auto add = [&](std::string_view key, std::string_view label) {
    const double seconds = NumberOf(run.Find(key));
    if (!(seconds >= 0)) return;
    // Clocks of several ranks: a wait may seem longer than what is left.
    parts.push_back({std::string(label), std::min(seconds, rest)});
    rest -= parts.back().seconds;
  };
  for (const Wait& wait : kWaits) add(wait.key, wait.label);
  if (const Json* last = run.last_line()) {
    for (const auto& [key, value] : last->members()) {
      const bool known =
          std::any_of(std::begin(kWaits), std::end(kWaits),
                      [&](const Wait& wait) { return wait.key == key; });
      if (!known && key.ends_with("_s") && key != "samples_per_s") {
        add(key, key.substr(0, key.size() - 2));
      }
    }
  }
  parts.insert(parts.begin(), {"compute, evaluations and checkpoints", rest});
  return parts;
}

bool IsMetric(const std::string& key) {
  return !key.ends_with("_s") &&
         std::find(std::begin(kCommonKeys), std::end(kCommonKeys), key) ==
             std::end(kCommonKeys);
}

std::string MainMetric(const Json& evaluation) {
  for (const auto& [key, value] : evaluation.members()) {
    if (IsMetric(key) && std::isfinite(NumberOf(&value))) return key;
  }
  return "";
}

std::string NumberText(double value) { return fmt::format("{:.4g}", value); }

}  // namespace lumen::cli

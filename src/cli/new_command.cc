// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/memory.h"
#include "lumen/core/text.h"
#include "lumen/data/discovery.h"
#include "lumen/train/proposal.h"

namespace lumen::cli {
namespace {

namespace fs = std::filesystem;

// Enough for two digits of a mean.
constexpr int64_t kMostLookedAt = 10000;
constexpr size_t kChannelsShown = 4;
// The rest is for the system and for what others start.
constexpr double kShareOfMemory = 0.8;
// Targets that far from 1 make the first steps too large.
constexpr double kLargeTargets = 10;

std::string SamplesText(const data::DatasetInfo& info) {
  std::string text = CountOf(info.train_samples, "training sample");
  if (info.valid_samples > 0) {
    text += fmt::format(", {} for validation", info.valid_samples);
  }
  return text + (info.test_samples > 0
                     ? fmt::format(", {} for tests", info.test_samples)
                     : ", none for tests");
}

std::string AnswerText(const data::DatasetInfo& info) {
  if (info.has_label_sets) {
    return fmt::format("any number of {} labels", info.classes);
  }
  if (info.targets > 0) return CountOf(info.targets, "real target");
  return fmt::format("{} classes", info.classes);
}

std::string ShapeLine(const data::Survey& survey) {
  const data::DatasetInfo& info = survey.info;
  if (survey.kind == SampleKind::kSparse) {
    return fmt::format(
        "sparse rows of {} features, {:.1f} values each", info.shape.channels,
        static_cast<double>(info.row_sizes.entries) /
            static_cast<double>(std::max<int64_t>(1, info.train_samples)));
  }
  return info.shape.ToString() + " values";
}

void PrintStatistics(const data::Survey& survey) {
  std::vector<std::string> texts;
  for (const data::ChannelStatistics& channel : survey.channels) {
    if (texts.size() == kChannelsShown) {
      texts.push_back(fmt::format("... ({} channels)", survey.channels.size()));
      break;
    }
    texts.push_back(
        fmt::format("{:.4g} +- {:.4g}", channel.mean, channel.deviation));
  }
  if (!texts.empty()) {
    fmt::print("  {:<10} {}\n", "values", "mean +- deviation " + Join(texts));
  }
  if (!survey.per_class.empty()) {
    const auto [least, most] =
        std::minmax_element(survey.per_class.begin(), survey.per_class.end());
    fmt::print("  {:<10} {} to {} samples per class, of {} looked at\n",
               "balance", *least, *most, survey.looked_at);
  }
  if (survey.info.targets > 0) {
    fmt::print("  {:<10} mean +- deviation {:.4g} +- {:.4g}\n", "targets",
               survey.targets.mean, survey.targets.deviation);
  }
  if (survey.bad > 0) {
    fmt::print("  {:<10} {} of {} cannot be read, the first: {}\n", "bad",
               survey.bad, CountOf(survey.looked_at, "sample"),
               survey.first_bad);
  } else {
    fmt::print("  {:<10} none of {}\n", "bad",
               CountOf(survey.looked_at, "sample"));
  }
}

// "data/" as "data.json", "a9a.txt" as "a9a.json".
std::string DefaultOut(const std::string& path) {
  fs::path full = fs::absolute(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  std::string stem = full.stem().string();
  return (stem.empty() ? "spec" : stem) + ".json";
}

}  // namespace

int RunNew(const CommandLine& line) {
  const std::string& path = line.arguments[0];
  const std::string out =
      line.flags.out.empty() ? DefaultOut(path) : line.flags.out;
  if (fs::exists(out) && !line.flags.force) {
    throw SpecError(out +
                    ": is there already; add --force to replace it, or "
                    "--out=FILE for another name");
  }
  const data::Discovery found = data::DiscoverDataset(path);
  const data::Survey survey = data::SurveyDataset(found.spec, kMostLookedAt);
  const std::string& type = found.spec.at("type").text();
  fmt::print("{}\n  {:<10} {}\n  {:<10} {}, {}\n  {:<10} {}\n", path, "type",
             type, "samples", ShapeLine(survey), AnswerText(survey.info),
             "splits", SamplesText(survey.info));
  PrintStatistics(survey);
  for (const std::string& note : found.notes) {
    fmt::print("  {:<10} {}\n", "note", note);
  }
  const bool scale = std::abs(survey.targets.mean) > kLargeTargets ||
                     survey.targets.deviation > kLargeTargets;
  if (scale) {
    fmt::print(
        "warning: targets are far from 1; training is easier when they are "
        "scaled to mean 0 and deviation 1\n");
  }
  const auto memory = static_cast<int64_t>(
      kShareOfMemory * static_cast<double>(AvailableMemoryBytes()));
  std::vector<std::string> comments = {
      fmt::format("lumen new {}: {}, {}.", Printable(path), ShapeLine(survey),
                  AnswerText(survey.info))};
  comments.push_back(SamplesText(survey.info) + ".");
  if (survey.info.test_samples == 0 && survey.info.valid_samples == 0) {
    comments.push_back(
        "Without a split to test on, only the training loss tells how well it "
        "goes.");
  }
  for (std::string& comment : comments) {
    std::replace(comment.begin(), comment.end(), '\n', ' ');
  }
  const train::Proposal proposal =
      train::ProposeSpec(found.spec, survey, memory, comments, out);
  fmt::print(
      "  {:<10} {}\n  {:<10} {} of {} weights exist\n  {:<10} {} per rank, "
      "of {} that can be had\n",
      "network", proposal.network, "weights", FormatCount(proposal.plan.nnz),
      FormatCount(proposal.plan.parameters), "memory",
      FormatBytes(proposal.plan.memory_bytes()), FormatBytes(memory));
  for (const std::string& warning : proposal.plan.warnings) {
    fmt::print("warning: {}\n", warning);
  }
  WriteFileAtomically(out, proposal.text);
  fmt::print("{}: written; next: lumen plan {}, lumen train {}\n", out, out,
             out);
  return 0;
}

}  // namespace lumen::cli

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report_figures.h"
#include "report_page.h"

namespace lumen::cli {
namespace {

// Twice what a wide screen has in pixels: more cannot be seen.
constexpr size_t kMostPoints = 4000;

bool IsNumber(const Json& json) { return std::isfinite(NumberOf(&json)); }

// Every n-th, and the last.
std::vector<const Json*> Thinned(const std::vector<const Json*>& lines) {
  const size_t stride = (lines.size() + kMostPoints - 1) / kMostPoints;
  if (stride <= 1) return lines;
  std::vector<const Json*> kept;
  for (size_t i = stride - 1; i < lines.size(); i += stride) {
    kept.push_back(lines[i]);
  }
  if (kept.back() != lines.back()) kept.push_back(lines.back());
  return kept;
}

Json Columns(const std::vector<const Json*>& lines) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const Json* line : lines) {
    for (const auto& [key, value] : line->members()) {
      if (IsNumber(value) && seen.insert(key).second) keys.push_back(key);
    }
  }
  Json columns = Json::Object();
  for (const std::string& key : keys) {
    Json column = Json::Array();
    for (const Json* line : lines) {
      const Json* value = line->Find(key);
      column.Append(value != nullptr && IsNumber(*value) ? *value : Json());
    }
    columns.Set(key, std::move(column));
  }
  return columns;
}

}  // namespace

std::string CurvesJson(const std::vector<RunRecord>& runs) {
  Json all = Json::Array();
  std::vector<std::string> metrics;
  for (const RunRecord& run : runs) {
    std::map<std::string, std::vector<const Json*>> lines;
    for (const Json& line : run.lines) {
      lines[line.at("split").text()].push_back(&line);
      for (const auto& [key, value] : line.members()) {
        if (IsMetric(key) && IsNumber(value) &&
            std::find(metrics.begin(), metrics.end(), key) == metrics.end()) {
          metrics.push_back(key);
        }
      }
    }
    Json splits = Json::Object();
    for (const auto& [split, of_split] : lines) {
      splits.Set(split, Columns(Thinned(of_split)));
    }
    Json json = Json::Object();
    json.Set("name", run.name);
    json.Set("splits", std::move(splits));
    all.Append(std::move(json));
  }
  Json names = Json::Array();
  for (const std::string& metric : metrics) names.Append(metric);
  Json data = Json::Object();
  data.Set("runs", std::move(all));
  data.Set("metrics", std::move(names));
  // "<" is in texts only; "</script" and "<!--" would end the element.
  std::string text;
  for (const char c : data.Dump()) {
    text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return text;
}

}  // namespace lumen::cli

// SPDX-License-Identifier: Apache-2.0
#include "report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lumen/core/text.h"
#include "report_figures.h"
#include "report_page.h"

namespace lumen::cli {
namespace {

constexpr size_t kMostEvaluations = 300;

std::string Percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

struct Layer {
  std::string name;
  double dense = 0;
  double present = 0;
};

// Of "layers": [[name, parameters, nonzeros], ...].
std::vector<Layer> LayersOf(const RunRecord& run) {
  std::vector<Layer> layers;
  const Json* json = run.Find("layers");
  if (json == nullptr || !json->is_array()) return layers;
  for (const Json& row : json->items()) {
    if (!row.is_array() || row.items().size() != 3 ||
        row.items()[0].kind() != Json::Kind::kText) {
      continue;
    }
    const Layer layer{row.items()[0].text(), NumberOf(&row.items()[1]),
                      NumberOf(&row.items()[2])};
    if (layer.dense > 0) layers.push_back(layer);
  }
  return layers;
}

}  // namespace

std::string TimeSection(const std::vector<RunRecord>& runs) {
  // By label, as runs of other versions may have other parts.
  std::vector<std::string> labels;
  std::vector<std::map<std::string, std::string>> texts(runs.size());
  std::string bars;
  std::string head = "<tr><th></th>";
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<TimePart> parts = TimeSplit(runs[i]);
    double total = 0;
    for (const TimePart& part : parts) total += part.seconds;
    if (runs.size() > 1)
      bars += "<p class=\"note\">" + Escaped(runs[i].name) + "</p>";
    bars += "<div class=\"bar\">";
    head +=
        "<th scope=\"col\" colspan=\"2\">" + Escaped(runs[i].name) + "</th>";
    for (const TimePart& part : parts) {
      auto at = std::find(labels.begin(), labels.end(), part.label);
      if (at == labels.end()) at = labels.insert(at, part.label);
      bars +=
          fmt::format("<i class=\"c{}\" style=\"width:{:.3f}%\"></i>",
                      (at - labels.begin()) % 8, 100 * part.seconds / total);
      texts[i][part.label] = FormatSeconds(part.seconds) + "</td><td>" +
                             Percent(part.seconds / total);
    }
    bars += "</div>\n";
  }
  if (labels.empty()) return "";
  std::string rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    rows +=
        fmt::format("<tr><th scope=\"row\"><i class=\"key c{}\"></i>{}</th>",
                    i % 8, Escaped(labels[i]));
    for (auto& of_run : texts) {
      const std::string& text = of_run[labels[i]];
      rows += "<td>" + (text.empty() ? "</td><td>" : text) + "</td>";
    }
    rows += "</tr>\n";
  }
  head = runs.size() > 1 ? head + "</tr>\n" : "";
  return "<section>\n<h2>Time</h2>\n" + bars +
         "<div class=\"scroll\"><table class=\"time\">\n" + head + rows +
         "</table></div>\n<p class=\"note\">Of all starts, by the slowest rank "
         "of each step.</p>\n</section>\n";
}

std::string DensitySection(const std::vector<RunRecord>& runs) {
  std::string html;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<Layer> layers = LayersOf(runs[i]);
    if (layers.empty()) continue;
    html += "<div class=\"scroll\"><table class=\"layers\">\n";
    if (runs.size() > 1) {
      html += "<caption>" + Escaped(runs[i].name) + "</caption>\n";
    }
    html +=
        "<thead><tr><th scope=\"col\">layer</th><th scope=\"col\">density</th>"
        "<th></th><th scope=\"col\">weights</th><th scope=\"col\">of</th></tr>"
        "</thead>\n<tbody>\n";
    for (const Layer& layer : layers) {
      const double density = layer.present / layer.dense;
      html += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td><div class=\"bar thin\">"
          "<i class=\"c{}\" style=\"width:{:.3f}%\"></i></div></td><td>{}</td>"
          "<td>{}</td></tr>\n",
          Escaped(layer.name), Percent(density), i % 8,
          100 * std::clamp(density, 0.0, 1.0),
          FormatCount(std::llround(layer.present)),
          FormatCount(std::llround(layer.dense)));
    }
    html += "</tbody></table></div>\n";
  }
  if (html.empty()) return "";
  return "<section>\n<h2>Density per layer</h2>\n" + html + "</section>\n";
}

std::string EvaluationTable(const RunRecord& run) {
  std::vector<const Json*> lines;
  std::vector<std::string> metrics;
  for (const Json& line : run.lines) {
    if (line.at("split").text() == "train") continue;
    lines.push_back(&line);
    for (const auto& [key, value] : line.members()) {
      if (IsMetric(key) && std::isfinite(NumberOf(&value)) &&
          std::find(metrics.begin(), metrics.end(), key) == metrics.end()) {
        metrics.push_back(key);
      }
    }
  }
  if (lines.empty()) return "";
  if (lines.size() > kMostEvaluations) {
    lines.erase(lines.begin(), lines.end() - kMostEvaluations);
  }
  std::string html =
      "<div class=\"scroll\"><table>\n<thead><tr><th>step</th><th>split</th>"
      "<th>time</th><th>loss</th>";
  for (const std::string& metric : metrics) {
    html += "<th>" + Escaped(metric) + "</th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  metrics.insert(metrics.begin(), "loss");
  for (const Json* line : lines) {
    const double seconds = NumberOf(line->Find("seconds"));
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>",
                        line->at("step").integer(),
                        Escaped(line->at("split").text()),
                        std::isfinite(seconds) ? FormatSeconds(seconds) : "");
    for (const std::string& metric : metrics) {
      const double value = NumberOf(line->Find(metric));
      html +=
          "<td>" + (std::isfinite(value) ? NumberText(value) : "") + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace lumen::cli

// SPDX-License-Identifier: Apache-2.0
#include "report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "lumen/core/text.h"
#include "report_figures.h"
#include "report_tables.h"

namespace lumen::cli {
namespace {

// A page may be opened from a mail: whatever is in it, nothing is loaded.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
)";

std::string Header(const std::vector<RunRecord>& runs) {
  std::string html = "<header>\n<p class=\"brand\">Lumen report</p>\n";
  if (runs.size() > 1) {
    html += fmt::format("<h1>{} runs</h1>\n", runs.size());
  }
  html += "<ul class=\"runs\">\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const StateText state = StateOf(run);
    const char* tag = runs.size() > 1 ? "b" : "h1";
    html += fmt::format(
        "<li>{}<{} class=\"name\">{}</{}> <span class=\"state {}\">{}</span>",
        runs.size() > 1 ? fmt::format("<i class=\"key c{}\"></i>", i % 8) : "",
        tag, Escaped(run.name), tag, state.kind, Escaped(state.word));
    std::vector<std::string> notes;
    if (!state.detail.empty()) notes.push_back(Escaped(state.detail));
    if (run.warnings > 0) notes.push_back(CountOf(run.warnings, "warning"));
    if (run.damaged_lines > 0) {
      notes.push_back(CountOf(run.damaged_lines, "damaged line") +
                      " of metrics.jsonl left out");
    }
    if (run.starts.size() > 1) {
      notes.push_back(CountOf(std::ssize(run.starts), "start"));
    }
    if (!notes.empty()) {
      html += " <span class=\"note\">" + Join(notes, " · ") + "</span>";
    }
    html += "</li>\n";
  }
  return html + "</ul>\n</header>\n";
}

std::string Value(const Figure& figure) {
  if (figure.value.empty()) return "<span class=\"note\">–</span>";
  return fmt::format("<data value=\"{}\" data-key=\"{}\">{}</data>",
                     Escaped(figure.raw), figure.key, Escaped(figure.value));
}

// One run: cards. Several: a table with a column each.
std::string Headline(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<Figure>> figures;
  for (const RunRecord& run : runs) figures.push_back(Figures(run));
  const bool several = runs.size() > 1;
  std::string html =
      several
          ? "<div class=\"scroll\"><table class=\"wide\">\n<thead><tr><th></th>"
          : "<dl class=\"cards\">\n";
  if (several) {
    for (const RunRecord& run : runs) {
      html += "<th scope=\"col\">" + Escaped(run.name) + "</th>";
    }
    html += "</tr></thead>\n<tbody>\n";
  }
  for (size_t i = 0; i < figures[0].size(); ++i) {
    const bool empty = std::all_of(
        figures.begin(), figures.end(),
        [&](const auto& of_run) { return of_run[i].value.empty(); });
    if (empty) continue;
    html += several ? "<tr><th scope=\"row\">" : "<div><dt>";
    html += figures[0][i].label + (several ? "</th>" : "</dt>");
    for (const std::vector<Figure>& of_run : figures) {
      html += several ? "<td>" : "<dd>";
      html += Value(of_run[i]);
      if (!of_run[i].detail.empty() && !of_run[i].value.empty()) {
        html += " <small>" + Escaped(of_run[i].detail) + "</small>";
      }
      html += several ? "</td>" : "</dd>";
    }
    html += several ? "</tr>\n" : "</div>\n";
  }
  return html + (several ? "</tbody></table></div>\n" : "</dl>\n");
}

std::string Charts(const std::vector<RunRecord>& runs) {
  return "<section>\n<h2>Curves</h2>\n"
         "<form class=\"controls\" id=\"controls\"></form>\n"
         "<div class=\"grid\" id=\"charts\"></div>\n"
         "<noscript><p class=\"note\">Curves are drawn by the script in this "
         "page, which this viewer does not run; all other figures are "
         "here.</p></noscript>\n"
         "<script type=\"application/json\" id=\"curves\">" +
         CurvesJson(runs) + "</script>\n</section>\n";
}

std::string Details(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return "<details><summary>" + Escaped(title) + "</summary>\n" + html +
         "</details>\n";
}

std::string Files(const std::vector<RunRecord>& runs) {
  std::string html;
  for (const RunRecord& run : runs) {
    const std::string of = runs.size() > 1 ? " of " + run.name : "";
    html += Details("Evaluations" + of, EvaluationTable(run));
    if (run.spec.is_object()) {
      html += Details("Spec" + of,
                      "<pre>" + Escaped(run.spec.Dump(2)) + "</pre>\n");
    }
    if (!run.log.empty()) {
      html += Details("Log" + of,
                      "<pre>" + Escaped(Join(run.log, "\n")) + "</pre>\n");
    }
  }
  return "<section>\n" + html + "</section>\n";
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string ReportPage(const std::vector<RunRecord>& runs) {
  std::string names;
  for (const RunRecord& run : runs) {
    names += (names.empty() ? "" : ", ") + run.name;
  }
  std::string html(kHead);
  html += "<title>Lumen: " + Escaped(names) + "</title>\n";
  html +=
      std::string("<style>\n") + kPlotCss + kPageCss + "</style>\n</head>\n";
  html += "<body>\n<main>\n" + Header(runs) + Headline(runs) + Charts(runs);
  html += "<div class=\"grid\">\n" + TimeSection(runs) + DensitySection(runs) +
          "</div>\n" + Files(runs);
  html += "<footer class=\"note\">Lumen " LUMEN_VERSION "</footer>\n</main>\n";
  // The library stays as its authors publish it, with their licence.
  html += std::string("<script>\n/*\n") + kPlotLicense + "*/\n" + kPlotJs +
          "</script>\n<script>\n" + kPageJs + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace lumen::cli

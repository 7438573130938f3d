# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=DIR -DOUTPUT=FILE.cc -P embed.cmake: the files of a report's
# page as text in the program, so that it needs none of them when it runs.
set(code "// Made by src/cli/report/embed.cmake.
#include \"cli/report_page.h\"
namespace lumen::cli {
")
foreach(pair kPageCss=page.css kPageJs=page.js kPlotCss=uPlot.min.css
        kPlotJs=uPlot.iife.min.js kPlotLicense=uPlot.LICENSE)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ "${FOLDER}/${file}" text)
  string(APPEND code "const char ${name}[] = R\"lumen(${text})lumen\";\n")
endforeach()
file(WRITE "${OUTPUT}" "${code}}  // namespace lumen::cli\n")

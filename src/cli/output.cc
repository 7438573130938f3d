// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace lumen::cli {
namespace {

// Why the first text was lost; 0: none was.
int g_error = 0;

void Flush() {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (lost && g_error == 0) g_error = errno == 0 ? EIO : errno;
}

}  // namespace

void Say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  Flush();
}

int WithOutput(int code) {
  Flush();
  if (g_error == 0) return code;
  std::fprintf(stderr, "lumen: standard output: writing failed: %s\n",
               std::strerror(g_error));
  return code == 0 ? 1 : code;
}

}  // namespace lumen::cli

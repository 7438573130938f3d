// SPDX-License-Identifier: Apache-2.0
// Text of a file, line by line, whatever compressed it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lumen::data {

// Plain text, or gzip, bzip2, xz or zstd, told by content: names often lie.
// Lines end in LF or CRLF, the last one with or without; a UTF-8 byte order
// mark is left out. Not thread-safe.
class TextInput {
 public:
  // Throws IoError when the file cannot be opened, and for UTF-16.
  explicit TextInput(const std::string& path);
  ~TextInput();
  TextInput(const TextInput&) = delete;
  TextInput& operator=(const TextInput&) = delete;

  // The next line without its end; false after the last. Throws IoError naming
  // the line where a compressed file is cut short or damaged.
  bool NextLine(std::string* line);
  // Number of the line read last, from 1.
  int64_t line() const;
  // "file:line", of the line read last.
  std::string where() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "a.csv.gz" gives ".csv": the extension before that of a compression.
std::string TextExtension(std::string_view path);

}  // namespace lumen::data

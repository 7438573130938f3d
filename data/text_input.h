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

  // The next line without its end, valid until the following call; false after
  // the last. Throws IoError naming the line where a compressed file is cut
  // short or damaged.
  bool Next(std::string_view* line);
  // Number of the line read last, from 1.
  int64_t line() const { return line_; }
  // "file:line", of the line read last.
  std::string where() const;

 private:
  struct Source;
  bool Fill();
  [[noreturn]] void Damaged(const std::string& reason) const;

  std::string path_;
  std::unique_ptr<Source> source_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not handed out
  size_t end_ = 0;
  bool at_end_ = false;
  int64_t line_ = 0;
};

// "a.csv.gz" gives ".csv": the extension before that of a compression.
std::string TextExtension(std::string_view path);

}  // namespace lumen::data

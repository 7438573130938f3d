// SPDX-License-Identifier: Apache-2.0
// The lines of a text file, plain, gzip or xz (told by content, not by name).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lumen::data {

class LineReader {
 public:
  // Throws IoError when the file cannot be opened.
  explicit LineReader(const std::string& path);
  ~LineReader();

  // The next line, without its end (LF or CRLF; the last one needs none), until
  // the following call. False at the end. Throws IoError where a compressed
  // file is cut short or damaged.
  bool Next(std::string_view* line);
  // Number of that line, from 1.
  int64_t number() const { return number_; }

 private:
  struct Source;
  bool Fill();

  std::string path_;
  std::unique_ptr<Source> source_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not handed out
  size_t end_ = 0;
  bool at_end_ = false;
  int64_t number_ = 0;
};

}  // namespace lumen::data

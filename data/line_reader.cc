// SPDX-License-Identifier: Apache-2.0
#include "data/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <cstring>
#include <fstream>

#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr size_t kBlock = size_t{1} << 18;
constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kXz =
    "\xfd"
    "7zXZ";

}  // namespace

struct LineReader::Source {
  std::ifstream file;
  boost::iostreams::filtering_streambuf<boost::iostreams::input> stream;
};

LineReader::LineReader(const std::string& path)
    : path_(path), source_(std::make_unique<Source>()), buffer_(kBlock, '\0') {
  std::ifstream& file = source_->file;
  file.open(path, std::ios::binary);
  if (!file) throw IoError(path + ": cannot be opened for reading");
  char magic[kXz.size()] = {};
  file.read(magic, sizeof(magic));
  const std::string_view head(magic, static_cast<size_t>(file.gcount()));
  file.clear();
  file.seekg(0);
  if (head.starts_with(kGzip)) {
    source_->stream.push(boost::iostreams::gzip_decompressor(), kBlock);
  } else if (head == kXz) {
    source_->stream.push(boost::iostreams::lzma_decompressor(), kBlock);
  }
  source_->stream.push(file, kBlock);
}

LineReader::~LineReader() = default;

// Moves what is left to the front and reads behind it.
bool LineReader::Fill() {
  if (at_end_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const auto room = static_cast<std::streamsize>(buffer_.size() - end_);
  std::streamsize got = 0;
  try {
    got = source_->stream.sgetn(buffer_.data() + end_, room);
  } catch (const std::exception& error) {  // gzip_error, zlib_error, lzma_error
    throw IoError(fmt::format(
        "{}:{}: the file cannot be decompressed from about here: {}; cut "
        "short?",
        path_, number_ + 1, error.what()));
  }
  if (source_->file.bad()) {
    throw IoError(fmt::format("{}:{}: reading failed", path_, number_ + 1));
  }
  end_ += static_cast<size_t>(std::max<std::streamsize>(got, 0));
  at_end_ = got < room;
  return got > 0;
}

bool LineReader::Next(std::string_view* line) {
  size_t searched = 0;  // from begin_
  for (;;) {
    const char* from = buffer_.data() + begin_;
    const auto* found = static_cast<const char*>(
        std::memchr(from + searched, '\n', end_ - begin_ - searched));
    if (found != nullptr) {
      *line = {from, static_cast<size_t>(found - from)};
      begin_ += line->size() + 1;
      break;
    }
    searched = end_ - begin_;
    if (Fill()) continue;
    if (begin_ == end_) return false;
    *line = {buffer_.data() + begin_, end_ - begin_};
    begin_ = end_;
    break;
  }
  ++number_;
  if (line->ends_with('\r')) line->remove_suffix(1);
  return true;
}

}  // namespace lumen::data

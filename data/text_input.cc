// SPDX-License-Identifier: Apache-2.0
#include "data/text_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <streambuf>

#include "data/zstd_frames.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

namespace io = boost::iostreams;
using Stream = io::filtering_streambuf<io::input>;

constexpr size_t kBlock = size_t{1} << 18;
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

struct Compression {
  std::string_view name;
  std::string_view extension;
  std::string_view magic;
  void (*push)(Stream*);
};

constexpr Compression kCompressions[] = {
    {"gzip", ".gz", "\x1f\x8b",
     [](Stream* stream) { stream->push(io::gzip_decompressor(), kBlock); }},
    {"bzip2", ".bz2", "BZh",
     [](Stream* stream) { stream->push(io::bzip2_decompressor(), kBlock); }},
    {"xz", ".xz",
     std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     [](Stream* stream) { stream->push(io::lzma_decompressor(), kBlock); }},
    {"zstd", ".zst", "\x28\xb5\x2f\xfd",
     [](Stream* stream) { stream->push(io::zstd_decompressor(), kBlock); }},
};

const Compression* FindCompression(std::string_view head) {
  for (const Compression& compression : kCompressions) {
    if (head.starts_with(compression.magic)) return &compression;
  }
  return nullptr;
}

}  // namespace

struct TextInput::Source {
  std::ifstream file;
  const Compression* compression = nullptr;
  Stream unpacked;
  // Plain text is not copied through a filter.
  std::streambuf* content = nullptr;
};

TextInput::TextInput(const std::string& path)
    : path_(path), source_(std::make_unique<Source>()), buffer_(kBlock, '\0') {
  std::ifstream& file = source_->file;
  file.open(path, std::ios::binary);
  if (!file) throw IoError(path + ": cannot be opened for reading");
  char head[8] = {};
  file.read(head, sizeof(head));
  source_->compression =
      FindCompression({head, static_cast<size_t>(file.gcount())});
  file.clear();
  file.seekg(0);
  source_->content = file.rdbuf();
  if (source_->compression != nullptr) {
    source_->compression->push(&source_->unpacked);
    source_->unpacked.push(file, kBlock);
    source_->content = &source_->unpacked;
  }
  Fill();
  const std::string_view start(buffer_.data(), end_);
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
    throw IoError(path + ":1: found UTF-16; expected UTF-8; convert it with " +
                  "iconv -f UTF-16 -t UTF-8");
  }
  if (start.starts_with(kUtf8Mark)) begin_ = kUtf8Mark.size();
}

TextInput::~TextInput() = default;

void TextInput::Damaged(const std::string& reason) const {
  throw IoError(fmt::format(
      "{}:{}: reading failed from about here: {}; expected a whole {} file; "
      "cut short or damaged?",
      path_, line_ + 1, reason,
      source_->compression ? source_->compression->name : "text"));
}

// Moves what is left to the front and reads behind it; false at the end.
bool TextInput::Fill() {
  if (at_end_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const auto room = static_cast<std::streamsize>(buffer_.size() - end_);
  std::streamsize got = 0;
  try {
    got = source_->content->sgetn(buffer_.data() + end_, room);
  } catch (const std::exception& error) {  // gzip_error, ios_base::failure, ...
    Damaged(error.what());
  }
  end_ += static_cast<size_t>(std::max<std::streamsize>(got, 0));
  at_end_ = got < room;
  if (at_end_ && source_->compression != nullptr &&
      source_->compression->name == "zstd") {
    std::ifstream again(path_, std::ios::binary);
    if (!IsWholeZstd(&again)) Damaged("it ends inside a frame");
  }
  return got > 0;
}

bool TextInput::Next(std::string_view* line) {
  size_t searched = 0;  // from begin_
  while (true) {
    const char* from = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(
        std::memchr(from + searched, '\n', end_ - begin_ - searched));
    if (newline != nullptr) {
      *line = {from, static_cast<size_t>(newline - from)};
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
  ++line_;
  if (line->ends_with('\r')) line->remove_suffix(1);
  return true;
}

std::string TextInput::where() const {
  return fmt::format("{}:{}", path_, line_);
}

std::string TextExtension(std::string_view path) {
  for (const Compression& compression : kCompressions) {
    if (!path.ends_with(compression.extension)) continue;
    path.remove_suffix(compression.extension.size());
    break;
  }
  return std::filesystem::path(path).extension().string();
}

}  // namespace lumen::data

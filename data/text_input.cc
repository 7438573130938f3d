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
#include <vector>

#include "data/zstd_frames.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

namespace io = boost::iostreams;
using Stream = io::filtering_streambuf<io::input>;

constexpr int64_t kBufferBytes = 1 << 16;
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

struct Compression {
  std::string_view name;
  std::string_view extension;
  std::string_view magic;
  void (*push)(Stream*);
};

constexpr Compression kCompressions[] = {
    {"gzip", ".gz", "\x1f\x8b",
     [](Stream* stream) { stream->push(io::gzip_decompressor()); }},
    {"bzip2", ".bz2", "BZh",
     [](Stream* stream) { stream->push(io::bzip2_decompressor()); }},
    {"xz", ".xz",
     std::string_view("\xfd"
                      "7zXZ\0",
                      6),
     [](Stream* stream) { stream->push(io::lzma_decompressor()); }},
    {"zstd", ".zst", "\x28\xb5\x2f\xfd",
     [](Stream* stream) { stream->push(io::zstd_decompressor()); }},
};

const Compression* FindCompression(std::string_view head) {
  for (const Compression& compression : kCompressions) {
    if (head.starts_with(compression.magic)) return &compression;
  }
  return nullptr;
}

}  // namespace

struct TextInput::Impl {
  explicit Impl(const std::string& path)
      : path(path), file(path, std::ios::binary), buffer(kBufferBytes) {}

  // False at the end of the content.
  bool Fill() {
    try {
      end = stream.sgetn(buffer.data(), kBufferBytes);
    } catch (const std::exception& error) {  // gzip_error, zstd_error, ...
      Damaged(error.what());
    }
    begin = 0;
    if (end <= 0 && compression != nullptr && compression->name == "zstd") {
      std::ifstream again(path, std::ios::binary);
      if (!IsWholeZstd(&again)) Damaged("it ends inside a frame");
    }
    return end > 0;
  }

  [[noreturn]] void Damaged(const std::string& reason) const {
    throw IoError(fmt::format(
        "{}: after line {}: {}; expected a whole {} file; cut short or "
        "damaged?",
        path, line, reason, compression ? compression->name : "text"));
  }

  std::string path;
  std::ifstream file;
  const Compression* compression = nullptr;
  Stream stream;
  std::vector<char> buffer;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t line = 0;
};

TextInput::TextInput(const std::string& path)
    : impl_(std::make_unique<Impl>(path)) {
  if (!impl_->file) throw IoError(path + ": cannot be opened for reading");
  std::string head(8, '\0');
  impl_->file.read(head.data(), static_cast<int64_t>(head.size()));
  head.resize(impl_->file.gcount());
  impl_->file.clear();
  impl_->file.seekg(0);
  impl_->compression = FindCompression(head);
  if (impl_->compression) impl_->compression->push(&impl_->stream);
  impl_->stream.push(impl_->file);
  if (!impl_->Fill()) return;
  const std::string_view start(impl_->buffer.data(), impl_->end);
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) {
    throw IoError(path + ":1: found UTF-16; expected UTF-8; convert it with " +
                  "iconv -f UTF-16 -t UTF-8");
  }
  if (start.starts_with(kUtf8Mark)) impl_->begin = kUtf8Mark.size();
}

TextInput::~TextInput() = default;

bool TextInput::NextLine(std::string* line) {
  Impl& in = *impl_;
  line->clear();
  bool any = false;
  while (in.begin < in.end || in.Fill()) {
    any = true;
    const char* from = in.buffer.data() + in.begin;
    const int64_t left = in.end - in.begin;
    const auto* newline =
        static_cast<const char*>(std::memchr(from, '\n', left));
    line->append(from, newline ? newline - from : left);
    in.begin = newline ? newline - in.buffer.data() + 1 : in.end;
    if (newline) break;
  }
  if (!any) return false;
  if (line->ends_with('\r')) line->pop_back();
  ++in.line;
  return true;
}

int64_t TextInput::line() const { return impl_->line; }

std::string TextInput::where() const {
  return fmt::format("{}:{}", impl_->path, impl_->line);
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

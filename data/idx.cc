// SPDX-License-Identifier: Apache-2.0
// IDX, the format of MNIST and its relatives, plain or gzip:
// http://yann.lecun.com/exdb/mnist. Two zero bytes, a type, the number of
// dimensions, the dimensions (big-endian uint32), the values.
#include <fmt/format.h>

#include <algorithm>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <filesystem>
#include <fstream>

#include "data/files.h"
#include "data/found_files.h"
#include "data/memory_dataset.h"
#include "data/text.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

// See npz.cc: deflate cannot shrink more than this.
constexpr int64_t kMaxDeflateRatio = 1032;
constexpr int kGzipBuffer = 256;
constexpr int kUnsignedByte = 0x08;
constexpr int kMaxRank = 4;

// Bytes of a file, inflated when they begin like gzip (names often lie).
class ByteReader {
 public:
  explicit ByteReader(const std::string& path) : file_(path, std::ios::binary) {
    if (!file_) throw IoError(path + ": cannot be opened for reading");
    file_.seekg(0, std::ios::end);
    max_bytes_ = static_cast<int64_t>(file_.tellg());
    file_.seekg(0);
    const int first = file_.get();
    const int second = file_.get();
    file_.clear();
    file_.seekg(0);
    if (first == 0x1f && second == 0x8b) {
      // Small buffers: damage is noticed within a sample or so.
      stream_.push(boost::iostreams::gzip_decompressor(), kGzipBuffer);
      max_bytes_ = std::max<int64_t>(max_bytes_, 64) * kMaxDeflateRatio;
    }
    stream_.push(file_);
  }

  // The most that can follow, before reading anything.
  int64_t max_bytes() const { return max_bytes_; }

  // Fewer than asked for only at the end, or where damage begins.
  int64_t Read(char* out, int64_t bytes) {
    if (!damage_.empty()) return 0;
    try {
      return stream_.sgetn(out, bytes);
    } catch (const std::exception& error) {  // gzip_error, zlib_error
      damage_ = fmt::format("; it cannot be inflated: {}", error.what());
      return 0;
    }
  }
  // "" or why reading ended before the end of the content, for messages.
  const std::string& damage() const { return damage_; }

 private:
  std::ifstream file_;
  std::string damage_;
  boost::iostreams::filtering_streambuf<boost::iostreams::input> stream_;
  int64_t max_bytes_ = 0;
};

struct IdxHeader {
  std::vector<int64_t> sizes;
  int64_t bytes = 0;  // of values
};

IdxHeader ReadHeader(ByteReader* reader, const std::string& path) {
  unsigned char magic[4];
  if (reader->Read(reinterpret_cast<char*>(magic), 4) != 4) {
    throw IoError(path + ": ends inside the IDX magic; expected 4 bytes" +
                  reader->damage());
  }
  if (magic[0] != 0 || magic[1] != 0) {
    throw IoError(
        fmt::format("{}: found magic {:02x}{:02x}{:02x}{:02x}; "
                    "expected 0000TTNN, an IDX file",
                    path, magic[0], magic[1], magic[2], magic[3]));
  }
  if (magic[2] != kUnsignedByte) {
    throw IoError(fmt::format(
        "{}: found IDX type 0x{:02x}; expected 0x08, unsigned bytes", path,
        magic[2]));
  }
  const int rank = magic[3];
  if (rank < 1 || rank > kMaxRank) {
    throw IoError(fmt::format("{}: found {} dimensions; expected 1 to {}", path,
                              rank, kMaxRank));
  }
  unsigned char sizes[4 * kMaxRank];
  if (reader->Read(reinterpret_cast<char*>(sizes), 4 * rank) != 4 * rank) {
    throw IoError(
        fmt::format("{}: ends inside the IDX header; expected {} dimensions{}",
                    path, rank, reader->damage()));
  }
  IdxHeader header;
  header.bytes = 1;
  bool overflow = false;
  for (int d = 0; d < rank; ++d) {
    const unsigned char* s = sizes + 4 * d;
    header.sizes.push_back(int64_t{s[0]} << 24 | s[1] << 16 | s[2] << 8 | s[3]);
    overflow |= __builtin_mul_overflow(header.bytes, header.sizes.back(),
                                       &header.bytes);
  }
  if (overflow || header.bytes > reader->max_bytes()) {
    throw IoError(fmt::format(
        "{}: promises {} values; the file can hold at most {}; cut short?",
        path, Joined(header.sizes, "x"), reader->max_bytes()));
  }
  return header;
}

struct IdxArray {
  IdxHeader header;
  std::string bytes;
};

IdxArray ReadIdx(const std::string& path) {
  ByteReader reader(path);
  IdxArray array{ReadHeader(&reader, path), {}};
  const int64_t promised = array.header.bytes;
  const int64_t sample_bytes =
      promised / std::max<int64_t>(1, array.header.sizes[0]);
  array.bytes.reserve(promised);  // pages beyond the content stay untouched
  // Samples are read one by one, so that damage is told by sample.
  std::string block(std::clamp<int64_t>(sample_bytes, 1, 1 << 18), '\0');
  const auto done = [&] { return static_cast<int64_t>(array.bytes.size()); };
  while (done() < promised) {
    const int64_t want = std::min<int64_t>(block.size(), promised - done());
    const int64_t got = reader.Read(block.data(), want);
    array.bytes.append(block, 0, got);
    if (got == want) continue;
    throw IoError(fmt::format(
        "{}: sample {}: the file ends after {} of the {} bytes its header "
        "promises; cut short?{}",
        path, done() / sample_bytes, done(), promised, reader.damage()));
  }
  // The end of the content makes gzip check its CRC.
  char surplus;
  if (reader.Read(&surplus, 1) != 0 || !reader.damage().empty()) {
    throw IoError(
        fmt::format("{}: found {}; expected the {} bytes its header promises{}",
                    path, reader.damage().empty() ? "more" : "damage", promised,
                    reader.damage()));
  }
  return array;
}

Shape SampleShape(const std::string& path, const IdxHeader& header) {
  std::vector<int64_t> sizes(header.sizes.begin() + 1, header.sizes.end());
  if (sizes.size() == 2) sizes.insert(sizes.begin(), 1);
  const std::optional<Shape> shape = ToShape(sizes);
  if (!shape) {
    throw IoError(fmt::format("{}: found shape {}; expected no empty dimension",
                              path, Joined(header.sizes, "x")));
  }
  return *shape;
}

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const std::optional<SplitFiles> files = FilesOf(spec, split);
  if (!files) return nullptr;
  CheckReadable(files->x_key, files->x);
  CheckReadable(files->y_key, files->y);
  IdxArray x = ReadIdx(files->x);
  const IdxArray y = ReadIdx(files->y);
  if (y.header.sizes.size() != 1) {
    throw IoError(fmt::format("{}: found {} dimensions; expected 1: labels",
                              files->y, y.header.sizes.size()));
  }
  const Shape shape = SampleShape(files->x, x.header);
  CheckDeclared(spec, split, files->x, shape, x.header.sizes[0]);
  Answers answers;
  for (const char label : y.bytes) {
    answers.labels.push_back(static_cast<unsigned char>(label));
  }
  return std::make_unique<MemoryDataset>(
      files->x, files->y, shape, spec.at("classes").integer(),
      StoredType::kUint8, std::move(x.bytes), std::move(answers));
}

DatasetInfo Info(const Json& spec) {
  const auto read_header = [](const SplitFiles& files) {
    ByteReader reader(files.x);
    const IdxHeader header = ReadHeader(&reader, files.x);
    return SplitHeader{.shape = SampleShape(files.x, header),
                       .samples = header.sizes[0]};
  };
  return InfoFromFiles(
      spec, read_header, [](std::string path) { return path; }, 1);
}

bool IsIdx(const std::string& path) {
  ByteReader reader(path);
  unsigned char magic[4] = {1, 1, 1, 1};
  reader.Read(reinterpret_cast<char*>(magic), 4);
  return magic[0] == 0 && magic[1] == 0 && magic[2] == kUnsignedByte &&
         magic[3] >= 1 && magic[3] <= kMaxRank;
}

std::optional<Discovery> Discover(const std::string& path) {
  if (!std::filesystem::is_directory(path) && !IsIdx(path)) return std::nullopt;
  std::vector<FoundArray> arrays;
  for (const std::string& file : FilesAt(path)) {
    if (!IsIdx(file)) continue;
    ByteReader reader(file);
    const std::string name = std::filesystem::path(file).filename().string();
    arrays.push_back({name, name, ReadHeader(&reader, file).sizes});
  }
  std::optional<Json> spec = PairArrays(path, arrays);
  if (!spec) return std::nullopt;
  SetClasses(
      [](const std::string& y) {
        int64_t classes = 0;
        for (const char label : ReadIdx(y).bytes) {
          classes = std::max<int64_t>(
              classes, static_cast<unsigned char>(label) + int64_t{1});
        }
        return classes;
      },
      &*spec);
  return Discovery{std::move(*spec), {}};
}

}  // namespace

DatasetReader IdxReader() {
  return {"idx",
          kFileKeys,
          "MNIST-like files of bytes, plain or gzip; values are scaled by "
          "1/255",
          Open,
          Info,
          SampleKind::kDense,
          Discover};
}

}  // namespace lumen::data

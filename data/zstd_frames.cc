// SPDX-License-Identifier: Apache-2.0
#include "data/zstd_frames.h"

#include <cstdint>
#include <optional>

namespace lumen::data {
namespace {

constexpr uint64_t kFrameMagic = 0xfd2fb528;
constexpr uint64_t kSkippableMagic = 0x184d2a50;  // the last digit is free

// Little-endian; nullopt at the end of the file.
std::optional<uint64_t> ReadNumber(std::istream* file, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; ++i) {
    const int byte = file->get();
    if (byte < 0) return std::nullopt;
    number |= static_cast<uint64_t>(byte) << 8 * i;
  }
  return number;
}

// False when the file ends before.
bool Skip(std::istream* file, int64_t bytes, int64_t size) {
  if (bytes > size - file->tellg()) return false;
  file->seekg(bytes, std::ios::cur);
  return true;
}

bool SkipFrame(std::istream* file, int64_t size) {
  const auto descriptor = ReadNumber(file, 1);
  if (!descriptor) return false;
  const bool single_segment = *descriptor >> 5 & 1;
  const bool checksum = *descriptor >> 2 & 1;
  constexpr int kIdBytes[] = {0, 1, 2, 4};
  const int size_bytes[] = {single_segment ? 1 : 0, 2, 4, 8};
  const int header = (single_segment ? 0 : 1) + kIdBytes[*descriptor & 3] +
                     size_bytes[*descriptor >> 6];
  if (!Skip(file, header, size)) return false;
  while (true) {
    const auto block = ReadNumber(file, 3);
    if (!block) return false;
    const bool repeated_byte = (*block >> 1 & 3) == 1;
    const auto bytes = static_cast<int64_t>(*block >> 3);
    if (!Skip(file, repeated_byte ? 1 : bytes, size)) return false;
    if (*block & 1) break;
  }
  return !checksum || Skip(file, 4, size);
}

}  // namespace

bool IsWholeZstd(std::istream* file) {
  file->seekg(0, std::ios::end);
  const int64_t size = file->tellg();
  file->seekg(0);
  while (file->tellg() < size) {
    const auto magic = ReadNumber(file, 4);
    if (!magic) return false;
    if (*magic == kFrameMagic) {
      if (!SkipFrame(file, size)) return false;
    } else if ((*magic & ~uint64_t{15}) == kSkippableMagic) {
      const auto bytes = ReadNumber(file, 4);
      if (!bytes || !Skip(file, static_cast<int64_t>(*bytes), size)) {
        return false;
      }
    } else {
      return true;
    }
  }
  return true;
}

}  // namespace lumen::data

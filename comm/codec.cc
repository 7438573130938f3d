// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/codec.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "bits.h"
#include "lumen/core/error.h"
#include "values.h"
#include "varint.h"

namespace lumen::comm {
namespace {

constexpr ValueCodeRow kRows[] = {
    {"fp32", ValueCode::kFp32, 32, "exact"},
    {"bf16", ValueCode::kBf16, 16, "8 significant bits, rounded to even"},
    {"int8", ValueCode::kInt8, 8, "-127..127 times a scale per 256 values"},
};
constexpr std::array<std::string_view, std::size(kRows)> kNames = [] {
  std::array<std::string_view, std::size(kRows)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

// Index codes up to kMaxRice are Rice parameters.
constexpr int kMaxRice = 30;
constexpr int kBitmap = 31;

[[noreturn]] void Malformed(const char* found, const char* expected) {
  throw CommError(fmt::format(
      "coded slice: {}; expected {}; the message is damaged or its sender runs "
      "another version",
      found, expected));
}

// The best Rice parameter for geometric gaps of mean gap_sum / count (Kiely
// 2004, "Selecting the Golomb Parameter in Rice Coding", with log(phi) rounded
// to 63 / 131).
int RiceParameter(int64_t gap_sum, int64_t count) {
  const auto scaled = static_cast<uint64_t>(gap_sum * 63 / (count * 131));
  return std::min<int>(std::bit_width(scaled), kMaxRice);
}

// What both sides assume unless the slice says otherwise.
int DefaultRice(int64_t length, int64_t count) {
  return RiceParameter(length - count, count);
}

int64_t RiceBits(std::span<const int32_t> position, int parameter) {
  int64_t bits = std::ssize(position) * (parameter + 1);
  int32_t previous = -1;
  for (const int32_t p : position) {
    bits += (p - previous - 1) >> parameter;
    previous = p;
  }
  return bits;
}

struct RiceChoice {
  int parameter;
  int64_t bits;
};

// The parameter with the fewest bits, the smallest of equals. The sum of the
// gaps bounds the cost of a parameter from below, so nearly all are ruled out
// without a pass.
RiceChoice BestRice(std::span<const int32_t> position) {
  const int64_t count = std::ssize(position);
  const int64_t gap_sum = position.back() + 1 - count;
  RiceChoice best = {RiceParameter(gap_sum, count), 0};
  best.bits = RiceBits(position, best.parameter);
  for (int r = 0; r <= kMaxRice; ++r) {
    const int64_t rest = gap_sum - count * ((int64_t{1} << r) - 1);
    const int64_t least =
        count * (r + 1) + std::max<int64_t>(rest, 0) / (int64_t{1} << r);
    if (least > best.bits) continue;
    const int64_t bits = RiceBits(position, r);
    if (bits < best.bits || (bits == best.bits && r < best.parameter)) {
      best = {r, bits};
    }
  }
  return best;
}

int64_t BytesOf(int64_t bits) { return (bits + 7) / 8; }

// How the positions of a slice are coded.
struct IndexChoice {
  bool is_explicit;  // does a byte say which?
  int code;
};

IndexChoice ChooseIndex(std::span<const int32_t> position, int64_t length) {
  const int64_t count = std::ssize(position);
  const int default_rice = DefaultRice(length, count);
  const int64_t default_bytes = BytesOf(RiceBits(position, default_rice));
  const RiceChoice best = BestRice(position);
  const int64_t best_bytes = 1 + BytesOf(best.bits);
  const int64_t bitmap_bytes = 1 + BytesOf(length);
  if (default_bytes <= std::min(best_bytes, bitmap_bytes)) {
    return {false, default_rice};
  }
  return {true, best_bytes <= bitmap_bytes ? best.parameter : kBitmap};
}

void WriteBitmap(std::span<const int32_t> position, int64_t length,
                 std::vector<std::byte>* out) {
  const size_t begin = out->size();
  out->resize(begin + (length + 7) / 8);
  for (const int32_t p : position) {
    (*out)[begin + p / 8] |= static_cast<std::byte>(0x80 >> p % 8);
  }
}

void WriteIndex(std::span<const int32_t> position, int64_t length, int code,
                std::vector<std::byte>* out) {
  if (static_cast<int64_t>(position.size()) == length) return;
  if (code == kBitmap) return WriteBitmap(position, length, out);
  BitWriter writer(out);
  int32_t previous = -1;
  for (const int32_t p : position) {
    writer.PutRice(static_cast<uint32_t>(p - previous - 1), code);
    previous = p;
  }
  writer.Finish();
}

void ReadBitmap(int64_t length, int64_t count,
                std::span<const std::byte>* bytes,
                std::vector<int32_t>* position) {
  const int64_t size = (length + 7) / 8;
  if (static_cast<int64_t>(bytes->size()) < size) {
    Malformed("the bitmap is cut off", "one bit per position");
  }
  position->reserve(count);
  for (int64_t i = 0; i < size; ++i) {
    auto byte = static_cast<uint32_t>((*bytes)[i]);
    while (byte) {
      const int bit = std::countl_zero(byte) - 24;
      byte &= ~(0x80u >> bit);
      const int64_t p = 8 * i + bit;
      if (p >= length || static_cast<int64_t>(position->size()) == count) {
        Malformed("the bitmap has too many bits", "as many as entries");
      }
      position->push_back(static_cast<int32_t>(p));
    }
  }
  if (static_cast<int64_t>(position->size()) != count) {
    Malformed("the bitmap has too few bits", "as many as entries");
  }
  *bytes = bytes->subspan(size);
}

void ReadRice(int64_t length, int64_t count, int parameter,
              std::span<const std::byte>* bytes,
              std::vector<int32_t>* position) {
  position->resize(count);
  BitReader reader(*bytes);
  int64_t next = 0;  // the smallest position still possible
  for (int64_t i = 0; i < count; ++i) {
    const int64_t room = length - next - (count - i);  // keeps the rest inside
    uint32_t gap = 0;
    if (room < 0 ||
        !reader.GetRice(parameter, static_cast<uint32_t>(room), &gap)) {
      Malformed("an index gap is cut off or out of range",
                "positions inside the region");
    }
    next += gap;
    (*position)[i] = static_cast<int32_t>(next++);
  }
  bool clean = true;
  const size_t used = reader.Finish(&clean);
  if (!clean) Malformed("padding bits are set", "zeros");
  *bytes = bytes->subspan(used);
}

}  // namespace

std::span<const ValueCodeRow> ValueCodes() { return kRows; }

std::span<const std::string_view> ValueCodeNames() { return kNames; }

ValueCode ParseValueCode(std::string_view name) {
  for (const ValueCodeRow& row : kRows) {
    if (row.name == name) return row.code;
  }
  std::string known;
  for (const ValueCodeRow& row : kRows) {
    known += known.empty() ? "" : ", ";
    known += row.name;
  }
  throw SpecError(fmt::format(
      "exchange.codec.values: unknown \"{}\"; known: {}", name, known));
}

void EncodeSlice(ValueCode code, SparseSlice* slice,
                 std::vector<std::byte>* out) {
  CHECK_EQ(slice->position.size(), slice->value.size());
  CHECK(slice->length >= 0 && slice->length < int64_t{1} << 31);
  // Zeros carry nothing.
  size_t kept = 0;
  for (size_t i = 0; i < slice->value.size(); ++i) {
    if (slice->value[i] == 0) continue;
    slice->position[kept] = slice->position[i];
    slice->value[kept++] = slice->value[i];
  }
  slice->position.resize(kept);
  slice->value.resize(kept);

  const bool full = static_cast<int64_t>(kept) == slice->length;
  const IndexChoice index = kept == 0 || full
                                ? IndexChoice{false, 0}
                                : ChooseIndex(slice->position, slice->length);
  std::byte head[kMaxVarintBytes];
  const int used = PutVarint(2 * kept + (index.is_explicit ? 1 : 0), head);
  out->insert(out->end(), head, head + used);
  if (kept == 0) return;
  DCHECK_LT(slice->position.back(), slice->length);
  if (index.is_explicit) out->push_back(static_cast<std::byte>(index.code));
  WriteIndex(slice->position, slice->length, index.code, out);
  WriteValues(code, slice->value, out);
}

void DecodeSlice(ValueCode code, int64_t length,
                 std::span<const std::byte>* bytes, SparseSlice* slice) {
  CHECK(length >= 0 && length < int64_t{1} << 31);
  slice->length = length;
  slice->position.clear();
  slice->value.clear();
  uint64_t head = 0;
  if (!GetVarint(bytes, &head)) {
    Malformed("the number of entries is cut off", "a count");
  }
  if (head == 0) return;
  if (head / 2 == 0 || head / 2 > static_cast<uint64_t>(length)) {
    Malformed("an impossible number of entries",
              "one to as many as the region has");
  }
  const auto count = static_cast<int64_t>(head / 2);
  const bool full = count == length;
  int index = DefaultRice(length, count);
  if (head % 2) {
    if (bytes->empty()) Malformed("the index code is cut off", "a byte");
    index = static_cast<int>(bytes->front());
    *bytes = bytes->subspan(1);
    if (index > kBitmap || full) Malformed("an unknown index code", "0 to 31");
  }
  const int64_t value_bytes = ValueBytes(code, count);
  const auto check_values = [&] {
    if (std::ssize(*bytes) < value_bytes) {
      Malformed("the values are cut off", "a value per entry");
    }
  };
  check_values();  // before memory is taken for them
  if (full) {
    slice->position.resize(count);
    std::iota(slice->position.begin(), slice->position.end(), 0);
  } else if (index == kBitmap) {
    ReadBitmap(length, count, bytes, &slice->position);
  } else {
    ReadRice(length, count, index, bytes, &slice->position);
  }
  check_values();
  slice->value.resize(count);
  if (!ReadValues(code, bytes->first(value_bytes), slice->value)) {
    Malformed("a value is not finite", "finite values");
  }
  *bytes = bytes->subspan(value_bytes);
}

double EntryBits(ValueCode code, double density) {
  const double bits = kRows[static_cast<int>(code)].bits;
  if (!(density > 0) || density >= 1) return bits;
  const double q = 1 - density;
  const double entropy = -density * std::log2(density) - q * std::log2(q);
  return bits + entropy / density;
}

double ExpectedSliceBytes(ValueCode code, int64_t kept, int64_t length) {
  if (kept <= 0 || length <= 0) return 1;
  const double density =
      static_cast<double>(kept) / static_cast<double>(length);
  const double index_bits =
      EntryBits(code, density) - kRows[static_cast<int>(code)].bits;
  const double head = kept < 64 ? 1 : kept < 8192 ? 2 : 3;
  // Rice coding costs about half a percent over the entropy, a byte boundary
  // half a byte.
  const double index =
      kept == length ? 0 : 1.005 * index_bits * static_cast<double>(kept) / 8;
  return head + index + (kept == length ? 0 : 0.5) +
         static_cast<double>(ValueBytes(code, kept));
}

}  // namespace lumen::comm

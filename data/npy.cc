// SPDX-License-Identifier: Apache-2.0
#include "data/npy.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "lumen/core/error.h"

namespace lumen::data {
namespace {

static_assert(std::endian::native == std::endian::little);

void SwapBytes(int64_t width, std::string* bytes) {
  for (size_t i = 0; i < bytes->size(); i += width) {
    std::reverse(bytes->begin() + i, bytes->begin() + i + width);
  }
}

// From column-major to row-major.
std::string Transposed(const NpyHeader& header, const std::string& bytes) {
  const std::vector<int64_t>& shape = header.shape;
  std::string result(bytes.size(), '\0');
  std::vector<int64_t> stride(shape.size());  // in the source, in bytes
  int64_t size = header.width;
  for (size_t d = 0; d < shape.size(); ++d) {
    stride[d] = size;
    size *= shape[d];
  }
  std::vector<int64_t> index(shape.size());
  int64_t from = 0;
  for (size_t to = 0; to < bytes.size(); to += header.width) {
    std::memcpy(result.data() + to, bytes.data() + from, header.width);
    for (size_t d = shape.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape[d]) break;
      from -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
  return result;
}

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  }
  if (exponent == 0) {  // zero or denormal: exact in fp32
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class T>
T Load(const NpyArray& array, int64_t index) {
  T value;
  std::memcpy(&value, array.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Calls convert(value) for each element in its own type.
template <class Result, class Convert>
std::vector<Result> Map(const NpyArray& array, const Convert& convert) {
  const int64_t size = array.elements();
  CHECK_EQ(static_cast<int64_t>(array.bytes.size()), size * array.width);
  std::vector<Result> result(size);
  const auto each = [&]<class T>(T) {
    for (int64_t i = 0; i < size; ++i) {
      result[i] = convert(Load<T>(array, i), i);
    }
  };
  switch (array.kind << 8 | static_cast<int>(array.width)) {
    case 'f' << 8 | 2:
      for (int64_t i = 0; i < size; ++i) {
        result[i] = convert(FromHalf(Load<uint16_t>(array, i)), i);
      }
      break;
    case 'f' << 8 | 4:
      each(float{});
      break;
    case 'f' << 8 | 8:
      each(double{});
      break;
    case 'i' << 8 | 1:
      each(int8_t{});
      break;
    case 'i' << 8 | 2:
      each(int16_t{});
      break;
    case 'i' << 8 | 4:
      each(int32_t{});
      break;
    case 'i' << 8 | 8:
      each(int64_t{});
      break;
    case 'u' << 8 | 1:
      each(uint8_t{});
      break;
    case 'u' << 8 | 2:
      each(uint16_t{});
      break;
    case 'u' << 8 | 4:
      each(uint32_t{});
      break;
    case 'u' << 8 | 8:
      each(uint64_t{});
      break;
    case 'b' << 8 | 1:
      for (int64_t i = 0; i < size; ++i) {
        result[i] = static_cast<Result>(array.bytes[i] != 0);
      }
      break;
    default:
      LOG(FATAL) << "array of unknown type " << array.kind << array.width;
  }
  return result;
}

template <class T>
[[noreturn]] void CannotHold(T value, int64_t index, std::string_view type) {
  throw SpecError(fmt::format("element {}: {}; expected a value that {} holds",
                              index, value, type));
}

}  // namespace

std::vector<float> NpyArray::ToFloat() const {
  return Map<float>(*this, [](auto value, int64_t index) {
    using T = decltype(value);
    const float converted = static_cast<float>(value);
    if constexpr (std::is_integral_v<T>) {
      // 2^63 and 2^64 round up out of the type; both bounds are exact floats.
      constexpr float kEnd = static_cast<float>(std::numeric_limits<T>::max());
      const bool in_range = sizeof(T) < 4 || converted < kEnd;
      if (!in_range || static_cast<T>(converted) != value) {
        CannotHold(value, index, "float32");
      }
    } else if (std::isinf(converted) && !std::isinf(value)) {
      CannotHold(value, index, "float32");
    }
    return converted;
  });
}

std::vector<int64_t> NpyArray::ToInt64() const {
  return Map<int64_t>(*this, [](auto value, int64_t index) {
    using T = decltype(value);
    if constexpr (std::is_floating_point_v<T>) {
      // NaN fails the first comparison.
      if (!(value >= T(-0x1p63) && value < T(0x1p63)) ||
          static_cast<T>(static_cast<int64_t>(value)) != value) {
        CannotHold(value, index, "int64");
      }
    } else if (std::cmp_greater(value, std::numeric_limits<int64_t>::max())) {
      CannotHold(value, index, "int64");
    }
    return static_cast<int64_t>(value);
  });
}

NpyArray ReadNpyValues(const ByteSource& source, const NpyLayout& layout,
                       const std::string& name) {
  NpyArray array;
  static_cast<NpyHeader&>(array) = layout.header;
  // Grows with what is really there: pages beyond stay untouched.
  array.bytes.reserve(layout.data_bytes);
  std::string block(std::min<int64_t>(layout.data_bytes, 1 << 18), '\0');
  while (static_cast<int64_t>(array.bytes.size()) < layout.data_bytes) {
    const int64_t want =
        std::min<int64_t>(block.size(), layout.data_bytes - array.bytes.size());
    ReadExactly(source, block.data(), want, name);
    array.bytes.append(block, 0, want);
  }
  if (layout.big_endian) SwapBytes(layout.header.width, &array.bytes);
  if (layout.fortran_order && layout.header.shape.size() > 1) {
    array.bytes = Transposed(layout.header, array.bytes);
  }
  return array;
}

NpyArray ParseNpy(std::string_view bytes, const std::string& name) {
  const auto total = static_cast<int64_t>(bytes.size());
  const ByteSource source = [&bytes](char* out, int64_t size) {
    const auto given = std::min<int64_t>(size, bytes.size());
    std::memcpy(out, bytes.data(), given);
    bytes.remove_prefix(given);
    return given;
  };
  const NpyLayout layout = ReadNpyLayout(source, total, name);
  return ReadNpyValues(source, layout, name);
}

}  // namespace lumen::data

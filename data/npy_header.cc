// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>

#include "data/npy.h"
#include "data/text.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
// The header of a numeric array is some 100 bytes; 64 dimensions need 1300.
constexpr int64_t kMaxHeader = 65536;
constexpr size_t kMaxRank = 32;

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name)
      : rest_(text), name_(name) {}

  NpyLayout Parse() {
    NpyLayout layout;
    bool seen_type = false;
    bool seen_order = false;
    bool seen_shape = false;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = Text("a key");
      Expect(':');
      if (key == "descr" && !seen_type) {
        ReadType(&layout);
        seen_type = true;
      } else if (key == "fortran_order" && !seen_order) {
        layout.fortran_order = Boolean();
        seen_order = true;
      } else if (key == "shape" && !seen_shape) {
        layout.header.shape = Shape();
        seen_shape = true;
      } else {
        Fail(
            fmt::format("the key \"{}\"; expected descr, fortran_order and "
                        "shape, once each",
                        key));
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    if (!seen_type || !seen_order || !seen_shape) {
      Fail("a key missing; expected descr, fortran_order and shape");
    }
    Skip();
    if (!rest_.empty()) Fail("text after the header; expected spaces");
    return layout;
  }

 private:
  [[noreturn]] void Fail(const std::string& found) {
    throw IoError(fmt::format("{}: .npy header: found {}", name_, found));
  }
  void Skip() {
    const size_t start = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(start, rest_.size()));
  }
  bool Accept(char symbol) {
    Skip();
    if (rest_.empty() || rest_[0] != symbol) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Expect(char symbol) {
    if (Accept(symbol)) return;
    Fail(fmt::format("{}; expected '{}'", Here(), symbol));
  }
  std::string Here() const {
    if (rest_.empty()) return "its end";
    const auto byte = static_cast<unsigned char>(rest_[0]);
    if (byte < 0x20 || byte > 0x7e) return fmt::format("byte 0x{:02x}", byte);
    return fmt::format("'{}'", rest_[0]);
  }
  std::string Text(std::string_view what) {
    Skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) {
      Fail(fmt::format("{}; expected {} in quotes", Here(), what));
    }
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) Fail("no closing quote");
    std::string text(rest_.substr(1, end - 1));
    if (text.find('\\') != std::string::npos) Fail("an escape in a text");
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool Boolean() {
    Skip();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    Fail(Here() + "; expected True or False");
  }
  int64_t Size() {
    Skip();
    int64_t value = 0;
    size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' &&
           rest_[digits] <= '9') {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, rest_[digits] - '0', &value)) {
        Fail("a dimension beyond 2^63");
      }
      ++digits;
    }
    if (digits == 0) Fail(Here() + "; expected a dimension");
    rest_.remove_prefix(digits);
    return value;
  }
  std::vector<int64_t> Shape() {
    std::vector<int64_t> shape;
    Expect('(');
    while (!Accept(')')) {
      if (shape.size() == kMaxRank) Fail("more than 32 dimensions");
      shape.push_back(Size());
      if (Accept(',')) continue;
      if (shape.size() == 1) Fail("(n); expected a tuple (n,)");
      Expect(')');
      break;
    }
    return shape;
  }
  void ReadType(NpyLayout* layout) {
    Skip();
    if (!rest_.empty() && rest_[0] == '[') {
      Fail("a structured type; expected an array of numbers");
    }
    const std::string type = Text("a type");
    static constexpr std::string_view kTypes[] = {
        "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"};
    const std::string_view plain =
        std::string_view(type).substr(std::min<size_t>(1, type.size()));
    const bool known = std::ranges::find(kTypes, plain) != std::end(kTypes);
    const bool one_byte = plain.ends_with('1');
    if (!known || (type[0] != '<' && type[0] != '>' && type[0] != '=' &&
                   !(type[0] == '|' && one_byte))) {
      Fail(
          fmt::format("type \"{}\"; expected float16/32/64, int8 to int64, "
                      "uint8 to uint64 or bool",
                      type));
    }
    layout->header.kind = plain[0];
    layout->header.width = plain[1] - '0';
    layout->big_endian = type[0] == '>' && !one_byte;
  }

  std::string_view rest_;
  const std::string& name_;
};

}  // namespace

int64_t NpyHeader::elements() const {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::string NpyHeader::TypeName() const {
  switch (kind) {
    case 'f':
      return fmt::format("float{}", 8 * width);
    case 'i':
      return fmt::format("int{}", 8 * width);
    case 'u':
      return fmt::format("uint{}", 8 * width);
    default:
      return "bool";
  }
}

void ReadExactly(const ByteSource& source, char* out, int64_t bytes,
                 const std::string& name) {
  const int64_t got = source(out, bytes);
  if (got == bytes) return;
  throw IoError(
      fmt::format("{}: found {} bytes; expected {} more; the file is "
                  "cut short",
                  name, got, bytes - got));
}

NpyLayout ReadNpyLayout(const ByteSource& source, int64_t total_bytes,
                        const std::string& name) {
  char start[8];
  ReadExactly(source, start, sizeof(start), name);
  if (std::string_view(start, kMagic.size()) != kMagic) {
    throw IoError(name + ": found no .npy magic; expected a NumPy array");
  }
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3 || start[7] != 0) {
    throw IoError(
        fmt::format("{}: found .npy version {}.{}; expected 1.0, 2.0 or 3.0",
                    name, version, static_cast<unsigned char>(start[7])));
  }
  unsigned char length_bytes[4] = {};
  const int64_t length_width = version == 1 ? 2 : 4;
  ReadExactly(source, reinterpret_cast<char*>(length_bytes), length_width,
              name);
  const int64_t length = length_bytes[0] | length_bytes[1] << 8 |
                         length_bytes[2] << 16 | int64_t{length_bytes[3]} << 24;
  const int64_t data_offset = 8 + length_width + length;
  if (length > kMaxHeader || data_offset > total_bytes) {
    throw IoError(fmt::format(
        "{}: found a .npy header of {} bytes in a file of "
        "{}; expected at most {}",
        name, length, total_bytes, std::min(kMaxHeader, total_bytes)));
  }
  std::string text(length, '\0');
  ReadExactly(source, text.data(), length, name);
  NpyLayout layout = HeaderParser(text, name).Parse();
  layout.data_offset = data_offset;
  int64_t bytes = layout.header.width;
  if (std::ranges::find(layout.header.shape, 0) != layout.header.shape.end()) {
    bytes = 0;
  }
  bool overflow = false;
  for (const int64_t size : layout.header.shape) {
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (overflow || bytes != total_bytes - data_offset) {
    throw IoError(fmt::format(
        "{}: found {} bytes of values; expected {} for {} of shape ({})", name,
        total_bytes - data_offset,
        overflow ? std::string("more than 2^63") : std::to_string(bytes),
        layout.header.TypeName(), Joined(layout.header.shape, ", ")));
  }
  layout.data_bytes = bytes;
  return layout;
}

std::string NpyPrefix(const NpyHeader& header) {
  std::string dict = fmt::format(
      "{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
      header.width == 1 ? '|' : '<', header.kind, header.width,
      Joined(header.shape, ", "), header.shape.size() == 1 ? "," : "");
  // Values start at a multiple of 64; the header ends with a newline.
  const size_t before = kMagic.size() + 4;
  dict.resize((before + dict.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  dict += '\n';
  CHECK_LE(dict.size(), 65535u);
  std::string prefix(kMagic);
  prefix += '\x01';
  prefix += '\0';
  prefix += static_cast<char>(dict.size() & 0xff);
  prefix += static_cast<char>(dict.size() >> 8);
  return prefix + dict;
}

}  // namespace lumen::data

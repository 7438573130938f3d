// SPDX-License-Identifier: Apache-2.0
// PNG, through libpng. libpng leaves its functions with longjmp, so the
// functions that call setjmp here hold no object with a destructor.
#include <png.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "data/image.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const char* next = nullptr;
  const char* end = nullptr;
  int passes = 1;  // over the rows of an interlaced image
  char message[256] = {};

  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void Fail(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof(decoder->message), "%s", message);
  png_longjmp(png, 1);
}

void Ignore(png_structp, png_const_charp) {}

void Take(png_structp png, png_bytep data, size_t size) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (static_cast<size_t>(decoder->end - decoder->next) < size) {
    png_error(png, "the file is cut short");
  }
  std::memcpy(data, decoder->next, size);
  decoder->next += size;
}

bool ReadHeader(Decoder* decoder) {
  decoder->png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, decoder, Fail, Ignore);
  if (decoder->png == nullptr) return false;
  if (setjmp(png_jmpbuf(decoder->png)) != 0) return false;
  decoder->info = png_create_info_struct(decoder->png);
  png_set_read_fn(decoder->png, decoder, Take);
  png_read_info(decoder->png, decoder->info);
  png_set_expand(decoder->png);  // palettes, 1 to 4 bits, transparency
  png_set_scale_16(decoder->png);
  png_set_strip_alpha(decoder->png);
  decoder->passes = png_set_interlace_handling(decoder->png);
  png_read_update_info(decoder->png, decoder->info);
  return true;
}

bool ReadRows(Decoder* decoder, uint8_t* pixels, int64_t height,
              int64_t row_bytes) {
  if (setjmp(png_jmpbuf(decoder->png)) != 0) return false;
  for (int pass = 0; pass < decoder->passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) {
      png_read_row(decoder->png, pixels + y * row_bytes, nullptr);
    }
  }
  png_read_end(decoder->png, nullptr);
  return true;
}

}  // namespace

Image DecodePng(std::string_view bytes, const std::string& name,
                std::vector<uint8_t> memory) {
  Decoder decoder;
  decoder.next = bytes.data();
  decoder.end = bytes.data() + bytes.size();
  if (!ReadHeader(&decoder)) {
    throw IoError(name + ": cannot be decoded as PNG: " + decoder.message);
  }
  Image image{.height = png_get_image_height(decoder.png, decoder.info),
              .width = png_get_image_width(decoder.png, decoder.info),
              .channels = png_get_channels(decoder.png, decoder.info),
              .pixels = std::move(memory)};
  CheckImageSize(name, image.height, image.width);
  const int64_t row_bytes = image.width * image.channels;
  image.pixels.resize(image.height * row_bytes);
  if (!ReadRows(&decoder, image.pixels.data(), image.height, row_bytes)) {
    throw IoError(name + ": cannot be decoded as PNG: " + decoder.message);
  }
  return image;
}

}  // namespace lumen::data

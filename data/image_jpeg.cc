// SPDX-License-Identifier: Apache-2.0
// JPEG, through libjpeg-turbo. libjpeg leaves its functions with longjmp, so
// the functions that call setjmp here hold no object with a destructor.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <utility>

// jpeglib.h wants the two above first.
#include <jerror.h>
#include <jpeglib.h>

#include "data/image.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

struct Decoder {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jmp_buf jump = {};
  char message[JMSG_LENGTH_MAX] = {};

  ~Decoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void Fail(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->jump, 1);
}

// Level -1 is damage that libjpeg would paint over. Only what leaves the pixels
// alone is let through.
void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return;
    default:
      Fail(info);
  }
}

bool ReadHeader(Decoder* decoder, std::string_view bytes) {
  jpeg_decompress_struct& info = decoder->info;
  info.err = jpeg_std_error(&decoder->errors);
  info.client_data = decoder;
  decoder->errors.error_exit = Fail;
  decoder->errors.emit_message = OnMessage;
  if (setjmp(decoder->jump) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const uint8_t*>(bytes.data()),
               bytes.size());
  jpeg_read_header(&info, TRUE);
  return true;
}

bool ReadRows(Decoder* decoder, uint8_t* pixels, int64_t row_bytes) {
  jpeg_decompress_struct& info = decoder->info;
  if (setjmp(decoder->jump) != 0) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// 8 for the whole size, else 4, 2 or 1.
int64_t Eighths(const Fit& fit, int64_t height, int64_t width) {
  const Placement place = Place(fit, height, width);
  for (int64_t eighths = 1; eighths < 8; eighths *= 2) {
    const double scale = static_cast<double>(eighths) / 8;
    if (place.height * scale >= static_cast<double>(place.target_height) &&
        place.width * scale >= static_cast<double>(place.target_width)) {
      return eighths;
    }
  }
  return 8;
}

// Adobe writes CMYK as the light that is left, others as the ink.
void CmykToRgb(bool inverted, Image* image) {
  const int64_t count = image->height * image->width;
  uint8_t* pixels = image->pixels.data();
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* in = pixels + 4 * i;
    const int black = inverted ? in[3] : 255 - in[3];
    uint8_t rgb[3];
    for (int c = 0; c < 3; ++c) {
      const int light = inverted ? in[c] : 255 - in[c];
      rgb[c] = static_cast<uint8_t>((light * black + 127) / 255);
    }
    for (int c = 0; c < 3; ++c) pixels[3 * i + c] = rgb[c];
  }
  image->channels = 3;
  image->pixels.resize(3 * count);
}

}  // namespace

Image DecodeJpeg(std::string_view bytes, const std::string& name,
                 const Fit& fit, std::vector<uint8_t> memory) {
  Decoder decoder;
  jpeg_decompress_struct& info = decoder.info;
  if (!ReadHeader(&decoder, bytes)) {
    throw IoError(name + ": cannot be decoded as JPEG: " + decoder.message);
  }
  CheckImageSize(name, info.image_height, info.image_width);
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
      info.out_color_space = JCS_GRAYSCALE;
      break;
    case JCS_RGB:
    case JCS_YCbCr:
      info.out_color_space = JCS_RGB;
      break;
    case JCS_CMYK:
    case JCS_YCCK:
      info.out_color_space = JCS_CMYK;
      break;
    default:
      throw IoError(name +
                    ": found a JPEG of unknown colours; expected grey, RGB or "
                    "CMYK");
  }
  info.scale_num =
      static_cast<unsigned>(Eighths(fit, info.image_height, info.image_width));
  info.scale_denom = 8;
  jpeg_calc_output_dimensions(&info);
  Image image{.height = info.output_height,
              .width = info.output_width,
              .channels = info.out_color_components,
              .pixels = std::move(memory)};
  const int64_t row_bytes = image.width * image.channels;
  image.pixels.resize(image.height * row_bytes);
  if (!ReadRows(&decoder, image.pixels.data(), row_bytes)) {
    throw IoError(name + ": cannot be decoded as JPEG: " + decoder.message);
  }
  if (image.channels == 4) CmykToRgb(info.saw_Adobe_marker != 0, &image);
  return image;
}

}  // namespace lumen::data

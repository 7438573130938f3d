// SPDX-License-Identifier: Apache-2.0
// Image files for tests, written by the libraries that read them.
#pragma once

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>
#include <tiffio.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/image.h"
#include "test_files.h"

namespace lumen::data {

// Smooth colours that differ in every pixel and channel.
inline Image Picture(int64_t height, int64_t width, int64_t channels) {
  Image image{height, width, channels, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t value = c == 0   ? 200 * y / height + 20
                              : c == 1 ? 200 * x / width + 30
                                       : 100 * (x + y) / (height + width) + 90;
        image.pixels.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return image;
}

// `channels` 1: grey, 3: RGB, 4: CMYK with Adobe's marker when `adobe`.
inline std::string Jpeg(const Image& image, int quality = 95,
                        bool adobe = true) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<unsigned>(image.width);
  info.image_height = static_cast<unsigned>(image.height);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (image.channels == 4 && !adobe) info.write_Adobe_marker = FALSE;
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<uint8_t*>(image.pixels.data() +
                             info.next_scanline * image.width * image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string result(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

struct PngKind {
  int color = PNG_COLOR_TYPE_GRAY;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
};
// `rows` holds height rows of packed samples as PNG wants them.
inline std::string Png(int64_t height, int64_t width, const std::string& rows,
                       const PngKind& kind) {
  std::string result;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &result,
      [](png_structp writer, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<char*>(data), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(width),
               static_cast<png_uint_32>(height), kind.bits, kind.color,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, kind.palette.data(),
                 static_cast<int>(kind.palette.size()));
  }
  png_write_info(png, info);
  const size_t row_bytes = rows.size() / height;
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) {
      png_write_row(
          png, reinterpret_cast<const uint8_t*>(rows.data()) + y * row_bytes);
    }
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return result;
}
inline std::string Bytes(const std::vector<uint8_t>& values) {
  return {values.begin(), values.end()};
}
inline std::string Png(const Image& image) {
  return Png(image.height, image.width, Bytes(image.pixels),
             {.color = image.channels == 1 ? PNG_COLOR_TYPE_GRAY
                                           : PNG_COLOR_TYPE_RGB});
}

// `samples` of `bits` (8, 16, 32 for floats) each, in rows.
inline std::string Tiff(int64_t height, int64_t width, int64_t channels,
                        int bits, const std::string& samples,
                        int compression = COMPRESSION_LZW) {
  const TestFolder folder;
  const std::string path = folder.File("x.tif");
  TIFF* tiff = TIFFOpen(path.c_str(), "w");
  if (tiff == nullptr) std::abort();
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, static_cast<uint32_t>(width));
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, static_cast<uint32_t>(height));
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, static_cast<int>(channels));
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
  TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 4);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC,
               channels < 3 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB);
  if (bits == 32) {
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_IEEEFP);
  }
  if (channels == 4) {
    const uint16_t kind = EXTRASAMPLE_UNASSALPHA;
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &kind);
  }
  const int64_t row_bytes = width * channels * bits / 8;
  for (int64_t y = 0; y < height; ++y) {
    std::string row = samples.substr(y * row_bytes, row_bytes);
    TIFFWriteScanline(tiff, row.data(), static_cast<uint32_t>(y), 0);
  }
  TIFFClose(tiff);
  return Load(path);
}
inline std::string Tiff(const Image& image, int compression = COMPRESSION_LZW) {
  return Tiff(image.height, image.width, image.channels, 8, Bytes(image.pixels),
              compression);
}

}  // namespace lumen::data

// SPDX-License-Identifier: Apache-2.0
// TIFF, through libtiff's reader of RGBA images, which knows every layout and
// compression. The first image of a file counts.
#include <fmt/format.h>
#include <tiffio.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "data/image.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr tmsize_t kMaxBlock = tmsize_t{1} << 30;  // of one allocation

struct Source {
  const char* bytes = nullptr;
  int64_t size = 0;
  int64_t position = 0;
  std::string message;  // the first error
};

tmsize_t Take(thandle_t handle, void* data, tmsize_t size) {
  auto* source = static_cast<Source*>(handle);
  const int64_t left = source->size - source->position;
  if (left <= 0) return 0;
  const tmsize_t taken = size < left ? size : left;
  std::memcpy(data, source->bytes + source->position, taken);
  source->position += taken;
  return taken;
}
tmsize_t TakeNothing(thandle_t, void*, tmsize_t) { return 0; }
toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  auto* source = static_cast<Source*>(handle);
  const int64_t base = whence == SEEK_SET   ? 0
                       : whence == SEEK_CUR ? source->position
                                            : source->size;
  // A damaged offset may be anything; a place beyond the end reads nothing.
  int64_t place = 0;
  if (__builtin_add_overflow(base, static_cast<int64_t>(offset), &place) ||
      place < 0) {
    return static_cast<toff_t>(-1);
  }
  source->position = place;
  return place;
}
int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return static_cast<Source*>(handle)->size; }

int OnError(TIFF*, void* data, const char*, const char* format,
            va_list values) {
  char text[256];
  std::vsnprintf(text, sizeof(text), format, values);
  std::string& message = static_cast<Source*>(data)->message;
  if (message.empty()) message = text;
  return 1;
}
int OnWarning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const {
    TIFFOpenOptionsFree(options);
  }
};

[[noreturn]] void Fail(const std::string& name, const std::string& what) {
  throw IoError(name + ": cannot be decoded as TIFF: " + what);
}

}  // namespace

Image DecodeTiff(std::string_view bytes, const std::string& name) {
  Source source{.bytes = bytes.data(),
                .size = static_cast<int64_t>(bytes.size()),
                .message = {}};
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(
      TIFFOpenOptionsAlloc());
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), OnWarning, nullptr);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxBlock);
  // "m": no memory mapping.
  const std::unique_ptr<TIFF, CloseTiff> tiff(
      TIFFClientOpenExt(name.c_str(), "rm", &source, Take, TakeNothing, Seek,
                        Close, Size, nullptr, nullptr, options.get()));
  if (tiff == nullptr) Fail(name, source.message);
  uint32_t height = 0;
  uint32_t width = 0;
  uint16_t photometric = 0;
  uint16_t extra = 0;
  uint16_t* extra_kinds = nullptr;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_PHOTOMETRIC, &photometric);
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra, &extra_kinds);
  CheckImageSize(name, height, width);
  if (extra > 0) {
    throw IoError(fmt::format(
        "{}: found {} more channels than colours (transparency?); expected "
        "grey or RGB",
        name, extra));
  }
  char reason[1024] = "";
  if (TIFFRGBAImageOK(tiff.get(), reason) == 0) Fail(name, reason);
  const int64_t count = int64_t{height} * width;
  std::vector<uint32_t> raster(count);
  if (TIFFReadRGBAImageOriented(tiff.get(), width, height, raster.data(),
                                ORIENTATION_TOPLEFT, 1) == 0) {
    Fail(name, source.message);
  }
  const bool grey = photometric == PHOTOMETRIC_MINISBLACK ||
                    photometric == PHOTOMETRIC_MINISWHITE;
  Image image{
      .height = height, .width = width, .channels = grey ? 1 : 3, .pixels = {}};
  image.pixels.resize(count * image.channels);
  uint8_t* out = image.pixels.data();
  for (const uint32_t pixel : raster) {
    *out++ = TIFFGetR(pixel);
    if (grey) continue;
    *out++ = TIFFGetG(pixel);
    *out++ = TIFFGetB(pixel);
  }
  return image;
}

}  // namespace lumen::data

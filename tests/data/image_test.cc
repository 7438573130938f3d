// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>

#include "lumen/core/error.h"
#include "test_images.h"

namespace lumen::data {
namespace {

constexpr Fit kWhole = {FitKind::kStretch, 1 << 14, 1 << 14};  // no scaling

Image Decode(const std::string& bytes) {
  return DecodeImage(bytes, "a/b.img", kWhole);
}

void ExpectSame(const Image& found, const Image& expected, int most = 0) {
  ASSERT_EQ(found.height, expected.height);
  ASSERT_EQ(found.width, expected.width);
  ASSERT_EQ(found.channels, expected.channels);
  ASSERT_EQ(found.pixels.size(), expected.pixels.size());
  int worst = 0;
  for (size_t i = 0; i < found.pixels.size(); ++i) {
    worst = std::max(worst, std::abs(found.pixels[i] - expected.pixels[i]));
  }
  EXPECT_LE(worst, most);
}

void ExpectRefused(const std::string& bytes, const std::string& what) {
  ExpectError<IoError>([&] { Decode(bytes); }, {"a/b.img: ", what});
}

TEST(Image, PngIsExact) {
  ExpectSame(Decode(Png(Picture(5, 7, 1))), Picture(5, 7, 1));
  ExpectSame(Decode(Png(Picture(5, 7, 3))), Picture(5, 7, 3));
  const Image image = Picture(19, 11, 3);
  ExpectSame(Decode(Png(19, 11, Bytes(image.pixels),
                        {.color = PNG_COLOR_TYPE_RGB, .interlaced = true})),
             image);
}

TEST(Image, PngOfOtherKindsBecomesEightBitGreyOrRgb) {
  // 1 bit: 10100000 is white, black, white.
  ExpectSame(Decode(Png(1, 3, "\xa0", {.bits = 1})), {1, 3, 1, {255, 0, 255}});
  // 16 bits are rounded: 0x1234 / 257 is 18.13, 0xfe80 / 257 is 253.5.
  ExpectSame(
      Decode(Png(1, 2, std::string("\x12\x34\xfe\x80", 4), {.bits = 16})),
      {1, 2, 1, {18, 254}});
  ExpectSame(Decode(Png(1, 2, "abcdefgh", {.color = PNG_COLOR_TYPE_RGBA})),
             {1, 2, 3, {'a', 'b', 'c', 'e', 'f', 'g'}});
  ExpectSame(Decode(Png(1, 2, "abcd", {.color = PNG_COLOR_TYPE_GRAY_ALPHA})),
             {1, 2, 1, {'a', 'c'}});
  ExpectSame(Decode(Png(1, 2, std::string("\1\0", 2),
                        {.color = PNG_COLOR_TYPE_PALETTE,
                         .palette = {{1, 2, 3}, {4, 5, 6}}})),
             {1, 2, 3, {4, 5, 6, 1, 2, 3}});
}

TEST(Image, JpegIsClose) {
  ExpectSame(Decode(Jpeg(Picture(40, 56, 1))), Picture(40, 56, 1), 4);
  ExpectSame(Decode(Jpeg(Picture(40, 56, 3))), Picture(40, 56, 3), 8);
}

TEST(Image, CmykJpegBecomesRgb) {
  Image ink{16, 16, 4, {}};
  Image rgb{16, 16, 3, {}};
  for (int i = 0; i < 256; ++i) {
    for (const int value : {255, 128, 0, 51}) {
      ink.pixels.push_back(static_cast<uint8_t>(value));
    }
    // Ink: light 0, 127, 255 under black 204. Adobe: the light itself, 51.
    for (const int value : {0, 102, 204}) {
      rgb.pixels.push_back(static_cast<uint8_t>(value));
    }
  }
  ExpectSame(Decode(Jpeg(ink, 100, false)), rgb, 2);
  for (int i = 0; i < 256; ++i) {
    const uint8_t adobe[] = {51, 26, 0};
    std::copy_n(adobe, 3, rgb.pixels.begin() + 3 * i);
  }
  ExpectSame(Decode(Jpeg(ink, 100, true)), rgb, 2);
}

TEST(Image, LargeJpegIsDecodedAtTheSmallestSizeThatIsLargeEnough) {
  const std::string bytes = Jpeg(Picture(800, 1201, 3));
  const auto size = [&](FitKind kind, int64_t height, int64_t width) {
    const Image image = DecodeImage(bytes, "x", {kind, height, width});
    return std::pair(image.height, image.width);
  };
  EXPECT_EQ(size(FitKind::kCrop, 100, 100), std::pair(100L, 151L));
  EXPECT_EQ(size(FitKind::kCrop, 101, 101), std::pair(200L, 301L));
  EXPECT_EQ(size(FitKind::kCrop, 401, 10), std::pair(800L, 1201L));
  EXPECT_EQ(size(FitKind::kStretch, 200, 200), std::pair(200L, 301L));
  EXPECT_EQ(size(FitKind::kPad, 300, 300), std::pair(200L, 301L));
  EXPECT_EQ(size(FitKind::kPad, 301, 301), std::pair(400L, 601L));
}

TEST(Image, TiffIsExact) {
  for (const int compression :
       {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE}) {
    ExpectSame(Decode(Tiff(Picture(9, 7, 1), compression)), Picture(9, 7, 1));
    ExpectSame(Decode(Tiff(Picture(9, 7, 3), compression)), Picture(9, 7, 3));
  }
  const uint16_t wide[] = {257 * 3, 257 * 200};
  ExpectSame(Decode(Tiff(1, 2, 1, 16,
                         std::string(reinterpret_cast<const char*>(wide), 4))),
             {1, 2, 1, {3, 200}});
}

TEST(Image, WhatIsNoImageIsRefusedSayingWhy) {
  ExpectRefused("", "is empty");
  ExpectRefused("GIF89a", "expected a JPEG, PNG or TIFF");
  ExpectRefused(Tiff(2, 2, 4, 8, std::string(16, 'x')),
                "found 1 more channels");
  ExpectRefused(Tiff(2, 2, 1, 32, std::string(16, 'x')), "cannot be decoded");
  std::string png = Png(Picture(5, 7, 3));
  png[png.find("IEND") - 5] ^= 1;  // the last byte before the next length
  ExpectRefused(png, "IDAT: CRC error");
  // The header promises 2^28 + 2^14 pixels; the file has a few bytes.
  std::string jpeg = Jpeg(Picture(8, 8, 1));
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, std::string("\x40\x01\x40\x00", 4));
  ExpectRefused(jpeg, "promises 16385x16384 pixels");
}

TEST(Image, EveryTruncationIsAnErrorNamingTheFile) {
  const Image image = Picture(24, 20, 3);
  for (const std::string& whole : {Jpeg(image), Png(image), Tiff(image)}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      ExpectError<IoError>([&] { Decode(whole.substr(0, size)); },
                           {"a/b.img: "});
      if (testing::Test::HasFailure()) FAIL() << size << " of " << whole.size();
    }
  }
}

// The definition, in double: output (y, x) of a stretch.
double Expected(const Image& image, const Fit& fit, int64_t y, int64_t x,
                int64_t c) {
  const auto weight = [](int64_t input, int64_t inputs, int64_t output,
                         int64_t outputs) {
    const double step =
        static_cast<double>(inputs) / static_cast<double>(outputs);
    const double centre = (static_cast<double>(output) + 0.5) * step;
    const double away = std::abs(static_cast<double>(input) + 0.5 - centre);
    return std::max(0.0, 1 - away / std::max(1.0, step));
  };
  double sum = 0;
  double total = 0;
  for (int64_t i = 0; i < image.height; ++i) {
    const double row = weight(i, image.height, y, fit.height);
    if (row == 0) continue;
    for (int64_t j = 0; j < image.width; ++j) {
      const double w = row * weight(j, image.width, x, fit.width);
      sum += w * image.pixels[(i * image.width + j) * image.channels + c];
      total += w;
    }
  }
  return sum / total / 255;
}

TEST(FitImage, IsAMeanUnderATriangle) {
  std::mt19937 random(1);
  for (const int64_t channels : {1, 3}) {
    Image image = Picture(23, 37, channels);
    for (uint8_t& pixel : image.pixels) pixel = random() % 256;
    for (const auto& [height, width] :
         {std::pair(23, 37), {7, 37}, {23, 5}, {9, 10}, {1, 1}, {46, 50}}) {
      const Fit fit{FitKind::kStretch, height, width};
      std::vector<float> x(channels * height * width);
      FitImage(image, fit, channels, x);
      for (int64_t c = 0, at = 0; c < channels; ++c) {
        for (int64_t i = 0; i < height; ++i) {
          for (int64_t j = 0; j < width; ++j, ++at) {
            EXPECT_NEAR(x[at], Expected(image, fit, i, j, c), 1e-6);
          }
        }
      }
    }
  }
}

TEST(FitImage, AgreesWithTorch) {
  if (!PythonHas("torch")) GTEST_SKIP() << "no torch";
  const Image image = Picture(31, 45, 1);
  const Fit fit{FitKind::kStretch, 12, 60};
  std::vector<float> x(12 * 60);
  FitImage(image, fit, 1, x);
  const TestFolder folder;
  Store(folder.File("x"), Bytes(image.pixels));
  std::string output;
  ASSERT_TRUE(RunPython(
      "import torch, numpy\nx = torch.from_numpy(numpy.fromfile('" +
          folder.File("x") +
          "', 'uint8').reshape(1, 1, 31, 45).astype('float32') / 255)\n"
          "y = torch.nn.functional.interpolate(x, (12, 60), mode='bilinear', "
          "align_corners=False, antialias=True)\ny.numpy().tofile('" +
          folder.File("y") + "')\n",
      &output))
      << output;
  const std::string bytes = Load(folder.File("y"));
  ASSERT_EQ(bytes.size(), x.size() * 4);
  const auto* torch = reinterpret_cast<const float*>(bytes.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], torch[i], 2e-6);
}

TEST(FitImage, TheRightSizeKeepsItsValues) {
  const Image image = Picture(6, 9, 3);
  for (const FitKind kind :
       {FitKind::kCrop, FitKind::kStretch, FitKind::kPad}) {
    std::vector<float> x(3 * 54);
    FitImage(image, {kind, 6, 9}, 3, x);
    for (int64_t i = 0; i < 3 * 54; ++i) {
      EXPECT_EQ(x[i],
                static_cast<float>(image.pixels[i % 54 * 3 + i / 54]) / 255.0f);
    }
  }
}

TEST(FitImage, GreyAndRgbBecomeEachOther) {
  std::vector<float> x(3);
  FitImage({1, 1, 1, {77}}, {FitKind::kCrop, 1, 1}, 3, x);
  EXPECT_EQ(x, std::vector<float>(3, 77 / 255.0f));
  x.resize(1);
  FitImage({1, 1, 3, {10, 200, 90}}, {FitKind::kCrop, 1, 1}, 1, x);
  // 0.299 * 10 + 0.587 * 200 + 0.114 * 90 = 130.65
  EXPECT_EQ(x[0], 131 / 255.0f);
  FitImage({1, 1, 3, {255, 255, 255}}, {FitKind::kCrop, 1, 1}, 1, x);
  EXPECT_EQ(x[0], 1.0f);
}

TEST(FitImage, CropTakesTheCentreAndPadSurroundsWithZero) {
  const Image image{2, 4, 1, {1, 2, 3, 4, 5, 6, 7, 8}};
  std::vector<float> x(4);
  FitImage(image, {FitKind::kCrop, 2, 2}, 1, x);
  EXPECT_EQ(x,
            (std::vector<float>{2 / 255.f, 3 / 255.f, 6 / 255.f, 7 / 255.f}));
  x.assign(16, 9);
  FitImage(image, {FitKind::kPad, 4, 4}, 1, x);
  for (int64_t i = 0; i < 16; ++i) {
    const bool inside = i >= 4 && i < 12;
    EXPECT_EQ(x[i], inside ? static_cast<float>(i - 3) / 255.0f : 0.0f) << i;
  }
  // A line of 1000 pixels still leaves one row.
  const Placement line = Place({FitKind::kPad, 8, 8}, 1, 1000);
  EXPECT_EQ(line.target_height, 1);
  EXPECT_EQ(line.target_width, 8);
  EXPECT_EQ(line.target_top, 3);
}

TEST(Photos, DecodeToTheSizeAskedFor) {
  const std::string folder = LUMEN_SHARED_DATA "/photos-4k";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << folder << " is not there";
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jpg") continue;
    const std::string bytes = Load(entry.path().string());
    const Fit fit{FitKind::kCrop, 224, 224};
    const Image small = DecodeImage(bytes, "x", fit);
    const Image large = DecodeImage(bytes, "x", kWhole);
    EXPECT_LT(small.height, large.height);
    EXPECT_GE(small.height, 224);
    std::vector<float> x(3 * 224 * 224);
    std::vector<float> y(3 * 224 * 224);
    FitImage(small, fit, 3, x);
    FitImage(large, fit, 3, y);
    double squares = 0;
    for (size_t i = 0; i < x.size(); ++i)
      squares += (x[i] - y[i]) * (x[i] - y[i]);
    // Scaled decoding is another filter: about one step of 255 apart.
    EXPECT_LT(std::sqrt(squares / static_cast<double>(x.size())), 0.01);
    std::printf("%s: rms %.4f\n", entry.path().filename().c_str(),
                std::sqrt(squares / static_cast<double>(x.size())));
  }
}

}  // namespace
}  // namespace lumen::data

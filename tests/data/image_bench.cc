// SPDX-License-Identifier: Apache-2.0
// Samples per second of image_folder against libjpeg-turbo alone (decoding the
// same bytes at the same scale, nothing else), in turn in one process.
//
//   build/release/tests/data_image_bench [FOLDER]
//
// FOLDER holds JPEG files of one kind; without it, files of 500x375 pixels are
// made, the usual size of ImageNet's.
#include <algorithm>
#include <chrono>
#include <random>

#include "lumen/data/loader.h"
#include "test_images.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

constexpr int kRounds = 5;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// A photo stands between a smooth picture and noise.
Image NoisyPicture(unsigned seed) {
  std::mt19937 random(seed);
  Image image = Picture(375, 500, 3);
  for (uint8_t& pixel : image.pixels) pixel += random() % 24;
  return image;
}

// What a program of libjpeg would do. The scale is the reader's.
int64_t DecodeAlone(const std::string& bytes, unsigned eighths) {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const uint8_t*>(bytes.data()),
               bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.scale_num = eighths;
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  const int64_t row_bytes = int64_t{info.output_width} * 3;
  std::vector<uint8_t> pixels(info.output_height * row_bytes);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return static_cast<int64_t>(pixels.size());
}

void Run(const std::string& folder, int64_t side) {
  const Json spec =
      DataSpec(R"({"type": "image_folder", "train": ")" + folder +
               R"(", "order": "file", "size": [)" + std::to_string(side) +
               ", " + std::to_string(side) + "]}");
  const auto data = OpenDataset(spec, Split::kTrain);
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder + "/photos")) {
    files.push_back(Load(entry.path().string()));
  }
  const Fit fit{FitKind::kCrop, side, side};
  std::vector<unsigned> eighths;
  std::vector<float> x(3 * side * side);
  for (const std::string& bytes : files) {
    const Image image = DecodeImage(bytes, "x", fit);
    eighths.push_back(8);
    for (const unsigned e : {4u, 2u, 1u}) {
      if (DecodeAlone(bytes, e) == static_cast<int64_t>(image.pixels.size())) {
        eighths.back() = e;
      }
    }
  }
  const int64_t batch = std::min<int64_t>(32, data->size());
  const int64_t repeats = std::max<int64_t>(1, 320 / data->size());
  double alone = 1e30;
  double read = 1e30;
  double loaded = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    alone = std::min(alone, Seconds([&] {
                       for (int64_t r = 0; r < repeats; ++r) {
                         for (size_t i = 0; i < files.size(); ++i) {
                           DecodeAlone(files[i], eighths[i]);
                         }
                       }
                     }));
    read = std::min(read, Seconds([&] {
                      for (int64_t r = 0; r < repeats; ++r) {
                        for (int64_t i = 0; i < data->size(); ++i)
                          data->Read(i, x, {});
                      }
                    }));
    const SampleOrder order(data->size(), batch, 1, 1, Order::kFile,
                            Tail::kDrop);
    loaded = std::min(loaded, Seconds([&] {
                        Loader loader(data.get(), order,
                                      NewTransform(spec, data->shape()),
                                      LaneLayout::For(batch), {0}, 0,
                                      repeats * data->size() / batch);
                        while (loader.Next() != nullptr) {
                        }
                      }));
  }
  const auto samples = static_cast<double>(repeats * data->size());
  std::printf(
      "%4ldx%-4ld decode alone %7.1f/s  Read %7.1f/s (%3.0f %%)  Loader "
      "%7.1f/s (%3.0f %%)\n",
      side, side, samples / alone, samples / read, 100 * alone / read,
      samples / loaded, 100 * alone / loaded);
}

}  // namespace
}  // namespace lumen::data

int main(int argc, char** argv) {
  using namespace lumen::data;
  const TestFolder folder;
  if (argc > 1) {
    std::filesystem::create_directories(folder.File("photos"));
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      if (entry.path().extension() != ".jpg") continue;
      std::filesystem::copy(entry.path(), folder.File("photos"));
    }
  } else {
    std::filesystem::create_directories(folder.File("photos"));
    for (unsigned i = 0; i < 64; ++i) {
      Store(folder.File("photos/" + std::to_string(i) + ".jpg"),
            Jpeg(NoisyPicture(i), 90));
    }
  }
  for (const int64_t side : {64, 176, 224, 375}) Run(folder.path(), side);
}

// SPDX-License-Identifier: Apache-2.0
// Images, and the CSV file of their labels.
#include "fuzz/fuzz.h"
#include "test_images.h"

namespace lumen::data {
namespace {

TEST(Fuzz, ImagesAreReadOrRefused) {
  const Image image = Picture(24, 20, 3);
  const std::string spec =
      R"({"type": "image_folder", "root": "FOLDER", "train": "t",
          "size": [16, 16]})";
  std::vector<FuzzCase> cases;
  for (const std::string& bytes :
       {Jpeg(image), Jpeg(Picture(24, 20, 1)), Png(image),
        Png(24, 20, Bytes(image.pixels),
            {.color = PNG_COLOR_TYPE_RGB, .interlaced = true}),
        Tiff(image), Tiff(image, COMPRESSION_NONE),
        Tiff(image, COMPRESSION_ADOBE_DEFLATE)}) {
    cases.push_back({spec, {{"t/a/1.png", bytes}}});
  }
  FuzzDatasets(cases, 1500);
}

TEST(Fuzz, ListsOfImagesAreReadOrRefused) {
  const std::string png = Png(Picture(4, 4, 1));
  const std::vector<FuzzCase> cases = {
      {R"({"type": "image_folder", "root": "FOLDER", "train": "t",
           "size": [4, 4], "classes": 2, "labels": {"train": "labels.csv"}})",
       {{"labels.csv", "a.png,0\n\"b.png\",1\n"},
        {"t/a.png", png},
        {"t/b.png", png}}}};
  FuzzDatasets(cases, 1000, {",", "\"", "\n", "/", "..", "a.png", "9999999"});
}

}  // namespace
}  // namespace lumen::data

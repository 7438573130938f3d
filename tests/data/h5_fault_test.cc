// SPDX-License-Identifier: Apache-2.0
// Full disks and damaged HDF5 files.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "lumen/core/error.h"
#include "lumen/data/h5_file.h"
#include "test_files.h"

namespace lumen::data {
namespace {

void WriteSmall(const std::string& path) {
  std::vector<float> values(300);
  std::iota(values.begin(), values.end(), 0.0f);
  H5Writer writer(path);
  for (int i = 0; i < 12; ++i) {
    const std::string name = "/layers/" + std::to_string(i);
    writer.Write(name + "/values", values, {10, 30});
    writer.WriteText(name + "/kind", "linear");
  }
  writer.Close();
}

// Everything that is in the file.
std::string ReadAll(const std::string& path) {
  std::string all;
  const H5Reader reader(path);
  for (const ArrayInfo& info : reader.List()) {
    int64_t size = 1;
    for (const int64_t n : info.shape) size *= n;
    if (size < 0 || size > 1 << 20) throw IoError("absurd size");
    all += info.name;
    if (info.type == ElementType::kFloat32) {
      std::vector<float> values(size);
      reader.Read(info.name, 0, values);
      all.append(reinterpret_cast<const char*>(values.data()), 4 * size);
    }
    const std::string kind = info.name.substr(0, info.name.size() - 6) + "kind";
    if (reader.Has(kind)) all += reader.ReadText(kind);
  }
  return all;
}

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  rlimit old_;
};

TEST(H5Fault, AFullDiskIsAnErrorAtEveryPoint) {
  const TestFolder folder;
  const std::string path = folder.File("a.h5");
  WriteSmall(path);
  const std::string whole = Load(path);
  for (size_t limit = 0; limit < whole.size(); limit += 97) {
    testing::internal::CaptureStderr();
    {
      const FileSizeLimit scope(limit);
      ExpectError<IoError>([&] { WriteSmall(path); },
                           {path, "cannot be written", "File too large"});
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << limit;
  }
  WriteSmall(path);  // the library is still in order
  EXPECT_EQ(Load(path), whole);
}

TEST(H5Fault, AWriterThatIsGivenUpIsQuiet) {
  const TestFolder folder;
  testing::internal::CaptureStderr();
  {
    const FileSizeLimit scope(1000);
    H5Writer writer(folder.File("a.h5"));
    const std::vector<float> values(100000);
    EXPECT_THROW(writer.Write("/x", values, {100000}), IoError);
    EXPECT_THROW(writer.Write("/y", values, {100000}), IoError);
  }
  { H5Writer writer(folder.File("b.h5")); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(H5Fault, ARealFullFileSystemIsAnError) {
  const TestFolder folder;
  const std::string mount_point = folder.File("small");
  std::filesystem::create_directory(mount_point);
  if (mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=128k") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  }
  ExpectError<IoError>(
      [&] {
        H5Writer writer(mount_point + "/a.h5");
        writer.Write("/x", std::vector<float>(100000), {100000});
        writer.Close();
      },
      {"a.h5", "/x", "No space left"});
  umount(mount_point.c_str());
}

TEST(H5Fault, EveryTruncationIsAnError) {
  const TestFolder folder;
  const std::string path = folder.File("a.h5");
  WriteSmall(path);
  const std::string whole = Load(path);
  for (size_t size = 0; size < whole.size(); size += 61) {
    Store(path, whole.substr(0, size));
    EXPECT_THROW(ReadAll(path), IoError) << size;
  }
  Store(path, whole.substr(0, whole.size() - 1));
  EXPECT_THROW(ReadAll(path), IoError);
}

// HDF5 does not checksum values, and is known to crash or hang on some damaged
// metadata: checkpoints verify a digest of the whole file before opening it.
// The metadata written here (1.8 format) carries checksums, so each flip is
// found or harmless, never a crash. Children keep the test alive if not.
TEST(H5Fault, FlippedBytesAreFoundOrLeaveTheMetadataIntact) {
  const TestFolder folder;
  const std::string path = folder.File("a.h5");
  WriteSmall(path);
  const std::string whole = Load(path);
  int found = 0;
  int values_differ = 0;
  int crashed = 0;
  for (size_t at = 0; at < whole.size(); at += 29) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    Store(path, damaged);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      int code = 0;
      try {
        ReadAll(path);
      } catch (const IoError&) {
        code = 1;
      } catch (...) {
        code = 2;
      }
      _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 2) {
      ++crashed;
    } else {
      ++(WEXITSTATUS(status) == 1 ? found : values_differ);
    }
  }
  EXPECT_EQ(crashed, 0);
  EXPECT_GT(found, 0);
  RecordProperty("found", found);
  RecordProperty("values_differ", values_differ);
}

}  // namespace
}  // namespace lumen::data

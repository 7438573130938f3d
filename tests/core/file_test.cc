// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "lumen/core/error.h"
#include "lumen/core/memory.h"

namespace lumen {
namespace {

using ::testing::HasSubstr;

// A folder of its own for each test.
class File : public ::testing::Test {
 protected:
  File() {
    std::string name = ::testing::TempDir() + "lumen_file_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~File() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  int64_t Files() const {
    const std::filesystem::directory_iterator files(folder_);
    return std::distance(begin(files), end(files));
  }

  std::string folder_;
};

template <class Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(File, ReadsWhatWasWritten) {
  std::string text = "a\0b\nc\r\n";
  text += std::string(200000, 'x');
  WriteFileAtomically(Path("a"), text);
  EXPECT_EQ(ReadFile(Path("a")), text);
  WriteFileAtomically(Path("a"), "");
  EXPECT_EQ(ReadFile(Path("a")), "");
  EXPECT_EQ(Files(), 1);
}

TEST_F(File, MissingPathsAreNamedWithTheReason) {
  EXPECT_EQ(ErrorOf([&] { ReadFile("/nowhere/a"); }),
            "/nowhere/a: opening failed: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { WriteFileAtomically("/nowhere/a", "x"); }),
            "/nowhere/a.tmp: opening failed: No such file or directory");
  EXPECT_THAT(ErrorOf([&] { ReadFile(folder_); }), HasSubstr("directory"));
}

TEST_F(File, AFailedReplacementKeepsTheOldFile) {
  std::filesystem::create_directory(Path("folder"));
  std::ofstream(Path("folder/inside")) << "x";
  const std::string error =
      ErrorOf([&] { WriteFileAtomically(Path("folder"), "x"); });
  EXPECT_THAT(error, HasSubstr("renaming"));
  EXPECT_EQ(ReadFile(Path("folder/inside")), "x");
  EXPECT_EQ(Files(), 1) << "the temporary file stayed";
}

// Runs `call` with files limited to `bytes`: a write beyond fails as on a full
// disk, with another reason.
template <class Call>
std::string ErrorWithFileLimit(int64_t bytes, Call call) {
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(bytes);
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string error = ErrorOf(call);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  return error;
}

TEST_F(File, AFileThatDoesNotFitLeavesNothingBehind) {
  WriteFileAtomically(Path("a"), "old");
  const std::string error = ErrorWithFileLimit(
      1000, [&] { WriteFileAtomically(Path("a"), std::string(2000, 'x')); });
  EXPECT_THAT(error, HasSubstr("writing failed: File too large"));
  EXPECT_EQ(ReadFile(Path("a")), "old");
  EXPECT_EQ(Files(), 1);
}

TEST_F(File, ALineThatDoesNotFitIsCutOffAgain) {
  AppendFile file(Path("a"));
  file.Append(std::string(900, 'x'));
  const std::string error =
      ErrorWithFileLimit(1000, [&] { file.Append(std::string(200, 'y')); });
  EXPECT_THAT(error, HasSubstr("appending a line failed: File too large"));
  EXPECT_EQ(ReadFile(Path("a")), std::string(900, 'x') + "\n");
  file.Append("z");
  EXPECT_EQ(ReadFile(Path("a")), std::string(900, 'x') + "\nz\n");
}

TEST_F(File, AFullDeviceIsReportedWithAHint) {
  AppendFile file("/dev/full");
  EXPECT_EQ(ErrorOf([&] { file.Append("x"); }),
            "/dev/full: appending a line failed: No space left on device; "
            "free some space or choose another folder");
}

TEST_F(File, AFullDiskKeepsTheOldFile) {
  if (mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs is not permitted: "
                 << std::strerror(errno);
  }
  WriteFileAtomically(Path("a"), "old");
  const std::string error = ErrorOf(
      [&] { WriteFileAtomically(Path("a"), std::string(1 << 20, 'x')); });
  const std::string kept = ReadFile(Path("a"));
  const int64_t files = Files();
  umount(folder_.c_str());
  EXPECT_THAT(error, HasSubstr("a: writing failed: No space left"));
  EXPECT_EQ(kept, "old");
  EXPECT_EQ(files, 1);
}

TEST_F(File, CommitReplacesInOneStep) {
  WriteFileAtomically(Path("a"), "old");
  const std::string temporary = TemporaryPath(Path("a"));
  std::ofstream(temporary) << "new";
  CommitFile(temporary, Path("a"));
  EXPECT_EQ(ReadFile(Path("a")), "new");
  EXPECT_EQ(Files(), 1);
  EXPECT_THAT(ErrorOf([&] { CommitFile(temporary, Path("a")); }),
              HasSubstr("No such file"));
}

TEST_F(File, RelativePathsSyncTheCurrentFolder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  WriteFileAtomically("a", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(ReadFile(Path("a")), "x");
}

TEST_F(File, AppendGoesOnWhereItStopped) {
  {
    AppendFile file(Path("a"));
    EXPECT_EQ(file.bytes_dropped(), 0);
    file.Append("one");
    file.Append("");
    file.Sync();
  }
  AppendFile file(Path("a"));
  file.Append("two");
  EXPECT_EQ(ReadFile(Path("a")), "one\n\ntwo\n");
}

TEST_F(File, ATornLastLineIsCutOff) {
  for (const int64_t whole : {0, 1, 10, 4095, 4096, 4097, 10000}) {
    for (const int64_t torn : {0, 1, 10, 4095, 4096, 4097, 10000}) {
      std::string lines(static_cast<size_t>(whole), 'x');
      if (whole > 0) lines.back() = '\n';
      std::ofstream(Path("a"))
          << lines << std::string(static_cast<size_t>(torn), 'y');
      AppendFile file(Path("a"));
      EXPECT_EQ(file.bytes_dropped(), torn);
      file.Append("z");
      EXPECT_EQ(ReadFile(Path("a")), lines + "z\n") << whole << " " << torn;
    }
  }
}

TEST_F(File, AWriterWaitsForTheOneBefore) {
  auto first = std::make_unique<AppendFile>(Path("a"));
  first->Append("first");
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first->Append("last");
    first.reset();
  });
  AppendFile second(Path("a"));
  second.Append("second");
  ending.join();
  EXPECT_EQ(ReadFile(Path("a")), "first\nlast\nsecond\n");
}

TEST_F(File, AFileInUseIsKnown) {
  EXPECT_FALSE(AppendFile::IsInUse(Path("a")));  // not even there
  auto file = std::make_unique<AppendFile>(Path("a"));
  EXPECT_TRUE(AppendFile::IsInUse(Path("a")));
  file->Append("asking changes nothing");
  file.reset();
  EXPECT_FALSE(AppendFile::IsInUse(Path("a")));
}

TEST_F(File, AppendMoves) {
  AppendFile file(Path("a"));
  AppendFile moved(std::move(file));
  moved.Append("x");
  AppendFile other(Path("b"));
  other = std::move(moved);
  other.Append("y");
  EXPECT_EQ(other.path(), Path("a"));
  EXPECT_EQ(ReadFile(Path("a")), "x\ny\n");
}

TEST(Memory, PeakGrowsWithWhatIsTouched) {
  const int64_t before = PeakRssBytes();
  EXPECT_GT(before, 0);
  const std::string large(size_t{64} << 20, 'x');
  EXPECT_GE(PeakRssBytes(), std::max(before, int64_t{64} << 20));
  EXPECT_EQ(large.back(), 'x');
}

TEST(Memory, SomeIsAvailable) {
  EXPECT_GT(AvailableMemoryBytes(), int64_t{1} << 20);
  EXPECT_LT(AvailableMemoryBytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace lumen

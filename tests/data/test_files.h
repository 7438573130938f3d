// SPDX-License-Identifier: Apache-2.0
// Files for tests: a folder that goes away, bytes in and out, and the check of
// an error's text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lumen::data {

class TestFolder {
 public:
  TestFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "lumen-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

inline void Store(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Runs Debian's Python; false when it is missing or fails. `output` gets what
// it printed.
inline bool RunPython(const std::string& script, std::string* output) {
  const TestFolder folder;
  Store(folder.File("script.py"), script);
  const std::string command =
      "/usr/bin/python3 " + folder.File("script.py") + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  output->clear();
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    output->push_back(static_cast<char>(c));
  }
  return pclose(pipe) == 0;
}

inline bool PythonHas(const std::string& module) {
  std::string output;
  return RunPython("import " + module, &output);
}

// Calls `statement` and expects an Expected whose text holds every fragment.
template <class Expected, class Statement>
void ExpectError(const Statement& statement,
                 std::initializer_list<std::string> fragments) {
  try {
    statement();
    ADD_FAILURE() << "nothing thrown; expected " << *fragments.begin();
  } catch (const Expected& error) {
    for (const std::string& fragment : fragments) {
      EXPECT_THAT(error.what(), testing::HasSubstr(fragment));
    }
  }
}

}  // namespace lumen::data

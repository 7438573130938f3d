// SPDX-License-Identifier: Apache-2.0
// Rows of a map as a product computes them, and how threads share them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lumen/sparse/compute.h"
#include "lumen/sparse/pattern.h"

namespace lumen::nn {

// Outputs that one call of a kernel computes; offsets in vectors.
struct Line {
  int64_t x = 0;
  int64_t y = 0;
  sparse::Run run;
};

// Lines cut into strips, for rows that are computed in parts.
inline std::vector<Line> Strips(const std::vector<Line>& lines) {
  constexpr int64_t kMost = sparse::KernelRows::kStrip;
  std::vector<Line> strips;
  for (const Line& line : lines) {
    const int64_t all = line.run.vectors;
    const int64_t count = (all + kMost - 1) / kMost;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = all * i / count;
      Line strip = line;
      strip.x += begin * line.run.x_step;
      strip.y += begin * line.run.y_step;
      strip.run.vectors = all * (i + 1) / count - begin;
      strips.push_back(strip);
    }
  }
  return strips;
}

// Rows of the weight (or of its transpose) that go together.
struct RowTask {
  int64_t group = 0;  // dense weights: offsets differ from group to group
  int64_t begin = 0;
  int64_t end = 0;
};

// Into how many the rows are cut to keep all threads busy on `lines` lines.
inline int64_t RowChunks(const sparse::Compute& compute, size_t lines) {
  constexpr int64_t kTasksPerThread = 4;
  const int threads = compute.parallel.threads();
  if (threads == 1) return 1;
  const auto have = static_cast<int64_t>(lines);
  return (threads * kTasksPerThread + have - 1) / have;
}

// Tasks of about as many rows each.
inline std::vector<RowTask> EvenTasks(int64_t groups, int64_t rows,
                                      const sparse::Compute& compute,
                                      size_t lines) {
  const int64_t chunks =
      std::min(rows, std::max<int64_t>(1, RowChunks(compute, lines) / groups));
  std::vector<RowTask> tasks;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t c = 0; c < chunks; ++c) {
      tasks.push_back({g, rows * c / chunks, rows * (c + 1) / chunks});
    }
  }
  return tasks;
}

// Calls task(line, rows) for all pairs, shared by the threads.
template <class Task>
void ForLines(const sparse::Compute& compute, const std::vector<Line>& lines,
              const std::vector<RowTask>& tasks, const Task& task) {
  const auto count = std::ssize(tasks);
  compute.parallel.For(std::ssize(lines) * count, [&](int64_t i) {
    task(lines[static_cast<size_t>(i / count)],
         tasks[static_cast<size_t>(i % count)]);
  });
}

}  // namespace lumen::nn

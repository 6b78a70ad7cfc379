// What a person sees of a run while it goes on: one line, rewritten on a terminal, now and then elsewhere.
//
//   Progress progress(300);
//   progress.Step(metrics);      // "step 12/300  loss 4.1893  1834 tokens/s  41.2 MiB  2 min 31 s left"
//   progress.Note("validation loss 2.0312");
#ifndef REPRISE_LAUNCH_PROGRESS_H_
#define REPRISE_LAUNCH_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/train/metrics.h"

namespace reprise {

// "2 min 31 s"
std::string FormatDuration(double seconds);

class Progress {
 public:
  // `quiet`: says nothing (ranks other than 0).
  Progress(int64_t steps, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Step(const StepMetrics& metrics);
  void Note(const std::string& text);     // a line of its own
  void Waiting(const std::string& text);  // on a terminal, until the next line

 private:
  void Clear();

  int64_t steps_;
  bool quiet_;
  bool terminal_;
  bool line_open_ = false;
  int64_t first_step_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PROGRESS_H_

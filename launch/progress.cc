#include "launch/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "base/bytes.h"

namespace reprise {
namespace {

constexpr double kSecondsBetweenLines = 5;      // where the output is not a terminal
constexpr double kSecondsBetweenUpdates = 0.2;  // where it is

// mpirun gives every rank a terminal of its own, whatever its own output is: launch/run says what that is.
bool OutputIsTerminal() {
  if (const char* told = std::getenv("REPRISE_TERMINAL"); told != nullptr) return std::string(told) == "1";
  return std::getenv("OMPI_COMM_WORLD_RANK") == nullptr && isatty(STDOUT_FILENO) != 0;
}

}  // namespace

std::string FormatDuration(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole >= 3600) return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d s", whole);
}

Progress::Progress(int64_t steps, bool quiet)
    : steps_(steps), quiet_(quiet), terminal_(OutputIsTerminal()), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (line_open_) std::fputs("\n", stdout);
}

void Progress::Step(const StepMetrics& m) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  const bool edge = first_step_ == 0 || m.step == steps_;
  if (!edge && seconds(now - last_) < (terminal_ ? kSecondsBetweenUpdates : kSecondsBetweenLines)) return;
  if (first_step_ == 0) {
    first_step_ = m.step;
    start_ = now;
  }
  last_ = now;
  const double done = static_cast<double>(m.step - first_step_);
  const double each = done > 0 ? seconds(now - start_) / done : m.step_seconds;
  const std::string line =
      absl::StrFormat("step %d/%d  loss %.4f  norm %.3f  %.0f tokens/s  %s device  %s left", m.step, steps_, m.loss,
                      m.gradient_norm, m.tokens_per_second, FormatBytes(m.peak_device_bytes),
                      FormatDuration(each * static_cast<double>(steps_ - m.step)));
  Clear();
  std::fputs(line.c_str(), stdout);
  if (terminal_) {
    line_open_ = true;
  } else {
    std::fputs("\n", stdout);
  }
  std::fflush(stdout);
}

void Progress::Note(const std::string& text) {
  if (quiet_) return;
  Clear();
  std::fprintf(stdout, "%s\n", text.c_str());
  std::fflush(stdout);
}

void Progress::Waiting(const std::string& text) {
  if (quiet_ || !terminal_) return;
  Clear();
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  line_open_ = true;
}

void Progress::Clear() {
  if (line_open_) std::fputs("\r\033[K", stdout);
  line_open_ = false;
}

}  // namespace reprise

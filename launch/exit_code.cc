#include "launch/exit_code.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace reprise {

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      return kExitData;
    case absl::StatusCode::kResourceExhausted:
      return kExitNoPlan;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return kExitPeer;
    case absl::StatusCode::kOutOfRange:
      return kExitNotFinite;
    default:
      return kExitConfiguration;
  }
}

bool IsFirstProcess() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(variable)) return absl::string_view(rank) == "0";
  }
  return true;
}

void PrintError(const absl::Status& status) {
  std::string line = "reprise: ";
  for (const char letter : status.message()) {
    line += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  line += '\n';
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

bool WriteExitFile(int code) {
  const char* path = std::getenv("REPRISE_EXIT_FILE");
  if (path == nullptr || *path == '\0') return true;
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno != EEXIST;
  std::array<char, 4> text{};
  size_t length = 0;
  if (code >= 100) text[length++] = static_cast<char>('0' + code / 100 % 10);
  if (code >= 10) text[length++] = static_cast<char>('0' + code / 10 % 10);
  text[length++] = static_cast<char>('0' + code % 10);
  // A short write leaves a file that launch/run cannot read and passes over.
  [[maybe_unused]] const ssize_t written = write(file, text.data(), length);
  close(file);
  return true;
}

void SpeakAlone(const absl::Status& status, int rank) {
  constexpr auto kTurn = std::chrono::milliseconds(400);
  std::this_thread::sleep_for(kTurn * std::min(rank, 8));
  if (WriteExitFile(ExitCodeFor(status))) PrintError(status);
}

void ExitWith(int code) {
  if (code != kExitDone) WriteExitFile(code);
  std::fflush(nullptr);
  std::exit(code);
}

}  // namespace reprise

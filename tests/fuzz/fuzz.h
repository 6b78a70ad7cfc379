// What the fuzzers share. Each is LLVMFuzzerTestOneInput: it reads the input as a file, and ends the process where an
// answer breaks a promise of the header under test; libFuzzer and the sanitizers see the rest.
#ifndef REPRISE_TESTS_FUZZ_FUZZ_H_
#define REPRISE_TESTS_FUZZ_FUZZ_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace reprise::testing {

inline absl::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A refusal is one of `codes`, in one sentence.
inline void CheckRefusal(const absl::Status& status, absl::StatusCode code) {
  REPRISE_CHECK(status.code() == code) << status.ToString();
  REPRISE_CHECK(!status.message().empty() && status.message().size() < 10000) << status.ToString();
}

// A file on disk with `text`, for readers that take a path; the next call replaces it.
inline const std::string& WriteInput(absl::string_view text, const char* suffix) {
  static const std::string path = [&] {
    const char* folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    return std::string(folder) + "/reprise-fuzz-" + std::to_string(getpid()) + suffix;
  }();
  static const bool removed = std::atexit([] { std::remove(WriteInput("", "").c_str()); }) == 0;
  std::FILE* file = removed ? std::fopen(path.c_str(), "wb") : nullptr;
  REPRISE_CHECK(file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size()) << path;
  std::fclose(file);
  return path;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_FUZZ_FUZZ_H_

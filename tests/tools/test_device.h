// The device on which tests that can choose run: cpu, or what REPRISE_TEST_DEVICE names. So the golden files and the
// equality matrix are run on a GPU by programs that were built without one.
#ifndef REPRISE_TESTS_TOOLS_TEST_DEVICE_H_
#define REPRISE_TESTS_TOOLS_TEST_DEVICE_H_

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "runtime/train/training_job.h"

namespace reprise::testing {

inline std::string TestDevice() {
  const char* device = std::getenv("REPRISE_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

// Of one thread, to plan with.
inline KernelOptions KernelsOfDevice(const std::string& device) {
  const absl::StatusOr<KernelOptions> options = KernelsOf({.device = device});
  REPRISE_CHECK(options.ok()) << options.status().message();
  return *options;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_TEST_DEVICE_H_

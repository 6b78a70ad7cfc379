// How a stream of the `cpu` device runs one Work: exceptions become errors, completions have a deadline.
#ifndef REPRISE_DEVICE_CPU_RUN_WORK_H_
#define REPRISE_DEVICE_CPU_RUN_WORK_H_

#include <string>

#include "absl/status/status.h"
#include "device/device.h"

namespace reprise::cpu {

// Resets the completion, if there is one, and calls `run`. Whatever `run` throws (std::bad_alloc, dnnl::error, ...)
// comes back as Internal with its text and the stream's name.
absl::Status StartWork(Stream stream, const Work& work);

// StartWork, then waits for the completion. DeadlineExceeded, with the stream's name, after `deadline_seconds`.
absl::Status RunWork(Stream stream, const Work& work, double deadline_seconds);

// The error of a completion that did not come; `streams` is such as "stream gather".
absl::Status DeadlineError(const std::string& streams, double deadline_seconds);

}  // namespace reprise::cpu

#endif  // REPRISE_DEVICE_CPU_RUN_WORK_H_

#include "device/cpu/run_work.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise::cpu {
namespace {

absl::Status Await(Stream stream, const Completion& completion, double deadline_seconds) {
  absl::Status status = completion.Wait(absl::Seconds(deadline_seconds));
  if (!absl::IsDeadlineExceeded(status)) return status;
  // An operation may end with this code of its own; that error names more than ours can.
  if (completion.done()) return completion.Wait();
  return DeadlineError(absl::StrCat("stream ", StreamName(stream)), deadline_seconds);
}

}  // namespace

absl::Status StartWork(Stream stream, const Work& work) {
  if (work.completion != nullptr) work.completion->Reset();
  try {
    return work.run();
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("work on stream ", StreamName(stream), " threw: ", exception.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat("work on stream ", StreamName(stream), " threw something that is no std::exception"));
  }
}

absl::Status RunWork(Stream stream, const Work& work, double deadline_seconds) {
  RETURN_IF_ERROR(StartWork(stream, work));
  if (work.completion != nullptr) RETURN_IF_ERROR(Await(stream, *work.completion, deadline_seconds));
  if (work.done) work.done();
  return absl::OkStatus();
}

absl::Status DeadlineError(const std::string& streams, double deadline_seconds) {
  return absl::DeadlineExceededError(
      absl::StrCat(streams, " waited ", deadline_seconds,
                   " seconds for an operation that did not end: look at the other ranks, "
                   "or raise --deadline"));
}

}  // namespace reprise::cpu

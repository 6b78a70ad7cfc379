#include "device/device.h"

#include "base/check.h"

namespace reprise {

const char* StreamName(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return "compute";
    case Stream::kGather:
      return "gather";
    case Stream::kReduce:
      return "reduce";
    case Stream::kOffload:
      return "offload";
    case Stream::kReload:
      return "reload";
  }
  REPRISE_CHECK(false) << "no stream has the number " << static_cast<int>(stream);
  return "";
}

absl::Status Device::BeginCapture() {
  return absl::UnimplementedError("this device starts every part of a step anew; leave out --cuda_graphs");
}

absl::StatusOr<int> Device::EndCapture() { return absl::UnimplementedError("nothing was begun"); }

void Device::Replay(int captured) { REPRISE_CHECK(false) << "no step " << captured << " was captured"; }

}  // namespace reprise

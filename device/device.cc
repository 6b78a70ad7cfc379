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

}  // namespace reprise

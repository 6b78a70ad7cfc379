// Reads the description of a machine for --hardware=NAME: a TOML file with the numbers of runtime/plan/hardware.h.
//
//   ASSIGN_OR_RETURN(Hardware hardware, ReadHardware("h100-sxm"));      // hardware/h100-sxm.toml of the project
//   ASSIGN_OR_RETURN(Hardware hardware, ReadHardware("./mine.toml"));   // a file of one's own
#ifndef REPRISE_LAUNCH_HARDWARE_FILE_H_
#define REPRISE_LAUNCH_HARDWARE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/plan/hardware.h"

namespace reprise {

// InvalidArgument for a name that is not known (with those that are), a file that is no TOML, a key that is not known,
// and a rate that is missing, no number, or not positive.
absl::StatusOr<Hardware> ReadHardware(const std::string& name);

// The file that it reads; InvalidArgument for a name that is not known.
absl::StatusOr<std::string> HardwarePath(const std::string& name);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_HARDWARE_FILE_H_

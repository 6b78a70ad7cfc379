// What the control groups of this process leave it: a container or a batch system often gives less than the machine
// has.
//
//   const CgroupLimits limits = ReadCgroupLimits();
//   if (limits.cores) cores = std::min(cores, *limits.cores);
//
// Versions 1 and 2 are read, the group itself and every group above it; the tightest counts. What cannot be read is no
// limit.
#ifndef REPRISE_DEVICE_CGROUP_H_
#define REPRISE_DEVICE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>

namespace reprise {

struct CgroupLimits {
  std::optional<int64_t> memory_left_bytes;  // limit less what is in use and cannot be taken back
  std::optional<double> cores;               // CPU time per wall time
};

// `membership` lists the process's groups as /proc/self/cgroup does; `root` is where groups are mounted.
CgroupLimits ReadCgroupLimits(const std::string& membership = "/proc/self/cgroup",
                              const std::string& root = "/sys/fs/cgroup");

}  // namespace reprise

#endif  // REPRISE_DEVICE_CGROUP_H_

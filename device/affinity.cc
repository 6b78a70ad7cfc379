#include "device/affinity.h"

#include <hwloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "device/cgroup.h"

namespace reprise {
namespace {

class Topology {
 public:
  Topology() { loaded_ = hwloc_topology_init(&topology_) == 0 && hwloc_topology_load(topology_) == 0; }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  bool loaded() const { return loaded_; }
  hwloc_topology_t get() const { return topology_; }

  // The type that stands for a core: some virtual machines show hardware threads only.
  hwloc_obj_type_t CoreType() const {
    return hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  }

 private:
  hwloc_topology_t topology_ = nullptr;
  bool loaded_ = false;
};

std::vector<int> AllowedCores(const Topology& topology) {
  std::vector<int> cores;
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(topology.get(), mask, HWLOC_CPUBIND_PROCESS) != 0) hwloc_bitmap_fill(mask);
  const hwloc_obj_type_t type = topology.CoreType();
  for (hwloc_obj_t core = hwloc_get_next_obj_by_type(topology.get(), type, nullptr); core != nullptr;
       core = hwloc_get_next_obj_by_type(topology.get(), type, core)) {
    if (hwloc_bitmap_intersects(core->cpuset, mask)) cores.push_back(static_cast<int>(core->logical_index));
  }
  hwloc_bitmap_free(mask);
  return cores;
}

// Open MPI says so; Slurm says which binding it made ("quiet,mask_cpu:0x1", "quiet,none").
bool BoundAtLaunch() {
  if (const char* open_mpi = std::getenv("OMPI_MCA_orte_bound_at_launch"); open_mpi != nullptr) return true;
  const char* slurm = std::getenv("SLURM_CPU_BIND");
  return slurm != nullptr && std::getenv("SLURM_PROCID") != nullptr && absl::StrContains(slurm, "mask_cpu");
}

// "0-3,8" of an ascending list.
std::string Ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", numbers[first]);
    if (last > first) absl::StrAppend(&text, "-", numbers[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace

CoreFacts ReadCoreFacts() {
  CoreFacts facts;
  facts.bound_at_launch = BoundAtLaunch();
  facts.quota_cores = ReadCgroupLimits().cores.value_or(0);
  const Topology topology;
  if (!topology.loaded()) return facts;
  facts.allowed = AllowedCores(topology);
  facts.machine_cores = hwloc_get_nbobjs_by_type(topology.get(), topology.CoreType());
  return facts;
}

CoreShare ShareCores(const CoreFacts& facts, int local_size) {
  REPRISE_CHECK(local_size >= 1) << local_size << " ranks on this machine";
  const int allowed = std::max(1, static_cast<int>(facts.allowed.size()));
  int sharers = local_size;
  if (facts.bound_at_launch) {
    const int machine = std::max(allowed, facts.machine_cores);
    sharers = std::max(1, static_cast<int>((int64_t{local_size} * allowed + machine - 1) / machine));
  }
  CoreShare share;
  share.cores = std::max(1, allowed / sharers);
  if (facts.quota_cores > 0) {
    share.cores = std::clamp(static_cast<int>(std::ceil(facts.quota_cores / local_size)), 1, share.cores);
  }
  const std::string ranges = facts.allowed.empty() ? "unknown" : Ranges(facts.allowed);
  share.text = absl::StrCat(allowed == 1 ? "core " : "cores ", ranges, " (", share.cores, ")");
  return share;
}

CoreShare CoresForRank(int local_rank, int local_size) {
  REPRISE_CHECK(local_rank >= 0 && local_rank < local_size) << "local rank " << local_rank << " of " << local_size;
  return ShareCores(ReadCoreFacts(), local_size);
}

std::string ThreadsWarning(int threads, const CoreShare& share) {
  if (threads <= share.cores) return "";
  return absl::StrCat(threads, " threads on a share of ", share.cores, share.cores == 1 ? " core" : " cores", " (",
                      share.text, "): they will take turns; --threads=", share.cores, " is faster");
}

}  // namespace reprise

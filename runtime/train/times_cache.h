// A folder of measured times, so that a job that was planned once plans at once the next time.
//
//   TimesCache cache(PosixStorage(), folder);                 // "": keeps nothing
//   ASSIGN_OR_RETURN(MachineTimes times, CachedMachineTimes(cache, model, options, machine, ranks, communicator));
//
// A file holds the times of one key: what they depend on, as text (program, shapes, precision, processor, threads,
// ranks and hosts, version). A file that is cut off, of another key or not readable counts as none and is written anew;
// that a folder can't be written costs nothing but time.
#ifndef REPRISE_RUNTIME_TRAIN_TIMES_CACHE_H_
#define REPRISE_RUNTIME_TRAIN_TIMES_CACHE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/machine_timing.h"

namespace reprise {

class TimesCache {
 public:
  TimesCache(Storage& storage, std::string folder) : storage_(storage), folder_(std::move(folder)) {}

  std::optional<MachineTimes> Load(const std::string& key) const;
  absl::Status Save(const std::string& key, const MachineTimes& times) const;

 private:
  std::string PathOf(const std::string& key) const;

  Storage& storage_;
  const std::string folder_;
};

// From rank 0's cache, else measured by all ranks and kept there. Collective; errors of TimeMachine.
absl::StatusOr<MachineTimes> CachedMachineTimes(const TimesCache& cache, const Model& model, const JobOptions& options,
                                                const MachineOptions& machine, int ranks, Communicator& communicator);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_TIMES_CACHE_H_

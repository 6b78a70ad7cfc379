// How many cores this process may use, given the ranks beside it on the machine.
//
//   const CoreShare share = CoresForRank(local_rank, local_size);
//   const int threads = flag_threads > 0 ? flag_threads : share.cores;
//   log(share.text);                                    // "cores 0-1 (2)"
//   log(ThreadsWarning(threads, share));                // empty where threads fit
//
// Nothing is bound here: that is mpirun's and the batch system's part.
#ifndef REPRISE_DEVICE_AFFINITY_H_
#define REPRISE_DEVICE_AFFINITY_H_

#include <string>
#include <vector>

namespace reprise {

struct CoreShare {
  int cores = 1;     // at least 1
  std::string text;  // the cores that the process may run on and its share: "cores 0-3 (2)"
};

// What the share follows from. Cores are physical: two hardware threads of a core are one.
struct CoreFacts {
  std::vector<int> allowed;      // numbers of the cores in the affinity mask of this process
  int machine_cores = 1;         // in the whole machine
  bool bound_at_launch = false;  // the launcher gave this rank a mask of its own
  double quota_cores = 0;  // CPU time per wall time that control groups allow all ranks here together; 0: no limit
};
CoreFacts ReadCoreFacts();

// The rule, apart from the machine. `local_size` (>= 1) ranks are on it.
//  - Bound ranks use their mask as it is; where masks must overlap (local_size x mask > machine) they share it evenly.
//  - Other ranks share the mask, which is the same for all of them, evenly.
//  - Never more than an even share of the quota, rounded up; never less than 1.
CoreShare ShareCores(const CoreFacts& facts, int local_size);

// ShareCores(ReadCoreFacts(), local_size), with the rank's number in its checks: 0 <= local_rank < local_size.
CoreShare CoresForRank(int local_rank, int local_size);

// One sentence where `threads` is more than the share; empty otherwise.
std::string ThreadsWarning(int threads, const CoreShare& share);

}  // namespace reprise

#endif  // REPRISE_DEVICE_AFFINITY_H_

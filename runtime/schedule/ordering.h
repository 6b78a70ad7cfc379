// Waits: from what instructions read and write, and from which addresses they reuse, to the fewest waits that order it.
#ifndef REPRISE_RUNTIME_SCHEDULE_ORDERING_H_
#define REPRISE_RUNTIME_SCHEDULE_ORDERING_H_

#include "runtime/schedule/schedule.h"

namespace reprise {

// Fills in `waits` of every instruction. An instruction waits for another stream's where it reads what that wrote,
// writes what that read or wrote, or is the first to use memory that another item gave back and that touched it last;
// and only where no other wait, nor the order on its own stream, says so already (transitive reduction, by vector
// clocks). Lifetimes and addresses must be final.
void AssignWaits(Schedule* schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_ORDERING_H_

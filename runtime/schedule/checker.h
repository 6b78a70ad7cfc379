// Checker: proves that a schedule computes the same whatever order its streams run in, and that nothing is used before
// it is there or after it is given back. Knows schedule.h only, not how the schedule came to be.
//
//   RETURN_IF_ERROR(Check(schedule));
//
// Cheap: about linear in accesses and items, so every job checks its schedules at start. Errors are Internal and name
// the instructions and the item.
#ifndef REPRISE_RUNTIME_SCHEDULE_CHECKER_H_
#define REPRISE_RUNTIME_SCHEDULE_CHECKER_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/schedule/happens_before.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

// That
// - every wait names an earlier instruction of another stream, and collectives stand on their sequence's stream;
// - every operand is listed among its instruction's accesses and lies within its item;
// - two accesses to one item of which one writes are ordered, as the list has them;
// - what is read was written in the step (state and batch stay from before), a reload's bytes by its own offload;
// - items that share bytes have lifetimes apart, and all uses of the one are over before any use of the other starts;
//   state and batch share with nobody;
// - no item is used outside its lifetime or reaches beyond its memory.
absl::Status Check(const Schedule& schedule);

// That ranks which run these schedules meet: the same collectives in the same order on each sequence, and no deadlock
// with each stream in its order and each collective over only when every rank has started it.
absl::Status CheckAcrossRanks(const std::vector<const Schedule*>& ranks);

// The most units that are whole at one time under full sharding.
int MostUnitsWhole(const Schedule& schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_CHECKER_H_

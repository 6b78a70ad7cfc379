// Ranks as threads, over the `local` communicator.
//
//   RunRanks(4, [](Communicator& communicator) { EXPECT_OK(Barrier(communicator)); });
#ifndef REPRISE_TESTS_TOOLS_RANKS_H_
#define REPRISE_TESTS_TOOLS_RANKS_H_

#include <functional>

#include "collectives/communicator.h"

namespace reprise::testing {

// Runs `rank` once a rank, each in a thread of its own, and returns when all have returned. Communicators outlive all
// threads, so a rank that returns early is one that never comes, not one that has ended.
void RunRanks(int size, const std::function<void(Communicator&)>& rank, double deadline_seconds = 60);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_RANKS_H_

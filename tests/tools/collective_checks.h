// What every Communicator must do, whatever its backend. Each check is called on all ranks at once, holds its own
// expected values (plain loops over values that each rank can compute for all) and reports through EXPECT.
#ifndef REPRISE_TESTS_TOOLS_COLLECTIVE_CHECKS_H_
#define REPRISE_TESTS_TOOLS_COLLECTIVE_CHECKS_H_

#include <cstdint>
#include <vector>

#include "collectives/communicator.h"

namespace reprise::testing {

// A float of the given rank whose exponents are far apart, so that another order of summation gives other bits.
float RoughValue(int rank, int64_t index);

// This rank's shard of a reduce-scatter over RoughValue.
std::vector<float> ReduceRoughValues(Communicator& communicator, int64_t shard_elements);

void CheckAllGather(Communicator& communicator);
void CheckReduceScatter(Communicator& communicator);
void CheckReduceScatterAccumulates(Communicator& communicator);
void CheckReduceScatterInPlace(Communicator& communicator);
void CheckAllReduce(Communicator& communicator);
void CheckBroadcast(Communicator& communicator);
void CheckBarrier(Communicator& communicator);
void CheckManyInFlight(Communicator& communicator);
void CheckOppositeOrders(Communicator& communicator);
void CheckTexts(Communicator& communicator);
void CheckAgree(Communicator& communicator);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_COLLECTIVE_CHECKS_H_

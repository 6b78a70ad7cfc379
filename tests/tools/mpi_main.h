// The main of a test program that runs under mpirun: every rank runs every test, and all exit alike.
//
//   TEST(Something, OnAllRanks) { CheckBarrier(MpiWorld()); }
//   int main(int argc, char** argv) { return reprise::testing::RunMpiTests(argc, argv); }
#ifndef REPRISE_TESTS_TOOLS_MPI_MAIN_H_
#define REPRISE_TESTS_TOOLS_MPI_MAIN_H_

#include "collectives/communicator.h"

namespace reprise::testing {

// The communicator of the process, while tests run.
Communicator& MpiWorld();

// Runs all tests on all ranks; 0 if they passed on every rank.
int RunMpiTests(int argc, char** argv);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_MPI_MAIN_H_

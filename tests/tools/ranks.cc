#include "tests/tools/ranks.h"

#include <thread>
#include <vector>

namespace reprise::testing {

void RunRanks(int size, const std::function<void(Communicator&)>& rank, double deadline_seconds) {
  CommunicatorOptions options;
  options.deadline_seconds = deadline_seconds;
  const auto communicators = MakeLocalCommunicators(size, options);
  std::vector<std::thread> threads;
  for (const auto& communicator : communicators) threads.emplace_back([&] { rank(*communicator); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace reprise::testing

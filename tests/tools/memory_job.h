// Training jobs for tests of memory: GPT-2 of random sizes under random plans, and the live bytes of a schedule counted
// a second way.
//
//   std::mt19937_64 random(1);
//   const MemoryJob job = RandomMemoryJob(random);
//   LargestLiveSum(plan->schedule, AllItems);
#ifndef REPRISE_TESTS_TOOLS_MEMORY_JOB_H_
#define REPRISE_TESTS_TOOLS_MEMORY_JOB_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "models/gpt2.h"
#include "runtime/schedule/schedule.h"
#include "runtime/train/training_job.h"

namespace reprise::testing {

struct MemoryJob {
  Gpt2Config model;
  JobOptions options;
  int ranks = 1;
  std::string ToString() const;
};

// Small enough to run in milliseconds; every field of JobOptions that moves memory is drawn.
MemoryJob RandomMemoryJob(std::mt19937_64& random);

// GPT-2 124M, micro-batch 4, 256 tokens.
MemoryJob Gpt2SmallJob(const std::string& checkpoint, Sharding sharding, int ranks);

// Fills every micro-batch of `job`; the labels that count.
int64_t FillRandomBatch(const MemoryJob& what, uint64_t seed, TrainingJob& job);

using ItemFilter = std::function<bool(const Item& item)>;
bool AllItems(const Item& item);
// Boundaries, saved values, gradients of boundaries, scratch: no parameters, their gradients, optimizer state, batch.
bool ActivationItems(const Item& item);

// The largest sum, over ticks, of the aligned bytes of live device items that `filter` lets through. Lifetimes come
// from what the calls and instructions name, not from Item::first and Item::last.
int64_t LargestLiveSum(const Schedule& schedule, const ItemFilter& filter);

// The most bytes that an arena for `live_sum` may have: 1.02 times, 1.1 times below 256 MiB.
int64_t ArenaBound(int64_t live_sum);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_MEMORY_JOB_H_

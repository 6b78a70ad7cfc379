// What tests of collectives on the memory of GPUs share: collectives inside a step of a device, as a schedule has them,
// and ranks that may fail.
#ifndef REPRISE_TESTS_COLLECTIVES_DEVICE_STEP_H_
#define REPRISE_TESTS_COLLECTIVES_DEVICE_STEP_H_

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "device/device.h"

namespace reprise::testing {

inline Work CollectiveWork(Completion* done, std::function<void(Completion*)> start) {
  Work work;
  work.run = [done, start = std::move(start)] {
    start(done);
    return absl::OkStatus();
  };
  work.completion = done;
  return work;
}

// As RunRanks, but a rank that returns has ended: others that wait for it are told at once.
inline void RunRanksThatEnd(int size, const std::function<void(Communicator&)>& rank) {
  auto communicators = MakeLocalCommunicators(size, {});
  std::vector<std::thread> threads;
  for (std::unique_ptr<Communicator>& communicator : communicators) {
    threads.emplace_back([&] {
      rank(*communicator);
      communicator.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline constexpr int64_t kStepShard = 33;

// `rounds` of: gather a shard from each rank (element i of rank r is first 100 r + i); add what the ranks' wholes sum
// up to in this rank's part to a shard, which is returned. Two streams, ordered by events.
inline absl::StatusOr<std::vector<float>> GatherAndReduce(Communicator& communicator, Device& device, int rounds) {
  const int64_t size = communicator.size();
  std::vector<float> whole(static_cast<size_t>(size * kStepShard));
  for (int64_t i = 0; i < kStepShard; ++i) {
    whole[static_cast<size_t>(communicator.rank() * kStepShard + i)] =
        static_cast<float>(100 * communicator.rank() + i);
  }
  std::vector<float> sum(kStepShard, 0.0F);
  Completion gathered;
  Completion reduced;
  const Work gather = CollectiveWork(&gathered, [&](Completion* done) {
    communicator.AllGather(Sequence::kGather, {"h.0", reinterpret_cast<std::byte*>(whole.data()), kStepShard * 4},
                           done);
  });
  const Work reduce = CollectiveWork(&reduced, [&](Completion* done) {
    communicator.ReduceScatter(Sequence::kReduce, {"h.0", whole.data(), sum.data(), kStepShard, true}, done);
  });
  device.ReserveEvents(2);
  for (int round = 0; round < rounds; ++round) {
    device.Wait(Stream::kGather, 1);
    device.Enqueue(Stream::kGather, &gather);
    device.Record(Stream::kGather, 0);
    device.Wait(Stream::kReduce, 0);
    device.Enqueue(Stream::kReduce, &reduce);
    device.Record(Stream::kReduce, 1);
  }
  const absl::Status status = device.Synchronize();
  if (!status.ok()) return status;
  return sum;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_COLLECTIVES_DEVICE_STEP_H_

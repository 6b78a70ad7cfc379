#include "device/virtual_streams.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(VirtualStreamsTest, WorkOfOneStreamFollowsInTurnAndOtherStreamsRunBeside) {
  VirtualStreams rank(0);
  EXPECT_EQ(rank.Enqueue(Stream::kCompute, 100).end_ns, 100);
  EXPECT_EQ(rank.Enqueue(Stream::kOffload, 30).start_ns, 0);
  const VirtualSpan second = rank.Enqueue(Stream::kCompute, 5);
  EXPECT_EQ(second.start_ns, 100);
  EXPECT_EQ(second.end_ns, 105);
  EXPECT_EQ(rank.ready_ns(Stream::kOffload), 30);
  EXPECT_EQ(rank.end_ns(), 105);
}

TEST(VirtualStreamsTest, AWaitHoldsUntilTheEventAndNotLonger) {
  VirtualStreams rank(3);
  rank.Enqueue(Stream::kCompute, 100);
  rank.Record(Stream::kCompute, 0);
  rank.Enqueue(Stream::kCompute, 50);  // behind the event: nobody waits for it
  rank.Record(Stream::kCompute, 1);
  rank.Wait(Stream::kOffload, 0);
  EXPECT_EQ(rank.Enqueue(Stream::kOffload, 80).start_ns, 100);
  rank.Wait(Stream::kOffload, 1);  // past already
  rank.Wait(Stream::kOffload, 2);  // never recorded
  EXPECT_EQ(rank.Enqueue(Stream::kOffload, 1).start_ns, 180);
}

TEST(VirtualStreamsTest, WorkMayBeHeldBack) {
  VirtualStreams rank(0);
  EXPECT_EQ(rank.Enqueue(Stream::kReduce, 10, 40).end_ns, 50);
  EXPECT_EQ(rank.Enqueue(Stream::kReduce, 10, 40).start_ns, 50);
}

}  // namespace
}  // namespace reprise

#include "collectives/virtual_collective.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise {
namespace {

TEST(VirtualCollectiveTest, StartsWithTheLastAndEndsForAll) {
  std::vector<VirtualStreams> ranks(3, VirtualStreams(0));
  ranks[0].Enqueue(Stream::kReduce, 20);
  ranks[2].Enqueue(Stream::kReduce, 70);
  const VirtualSpan span = RunVirtualCollective(absl::MakeSpan(ranks), Stream::kReduce, 30);
  EXPECT_EQ(span.start_ns, 70);
  EXPECT_EQ(span.end_ns, 100);
  for (const VirtualStreams& rank : ranks) EXPECT_EQ(rank.ready_ns(Stream::kReduce), 100);
  EXPECT_EQ(ranks[1].ready_ns(Stream::kGather), 0);
}

TEST(VirtualCollectiveTest, OneRankWaitsForNobody) {
  std::vector<VirtualStreams> ranks(1, VirtualStreams(0));
  EXPECT_EQ(RunVirtualCollective(absl::MakeSpan(ranks), Stream::kGather, 5).end_ns, 5);
}

}  // namespace
}  // namespace reprise

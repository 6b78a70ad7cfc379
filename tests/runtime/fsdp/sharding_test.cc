#include "runtime/fsdp/sharding.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace reprise {
namespace {

TEST(Sharding, NamesParseBack) {
  for (const Sharding s : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    const auto parsed = ParseSharding(ShardingName(s));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, s);
  }
}

TEST(Sharding, AnUnknownNameIsRefusedByNameWithTheChoices) {
  for (const char* name : {"", "Full", "zero3"}) {
    const absl::Status status = ParseSharding(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "full, gradients, optimizer or none")) << status;
  }
}

TEST(Sharding, WhatIsShardedIsReducedEachMicroBatch) {
  EXPECT_TRUE(ReducesEachMicroBatch(Sharding::kFull));
  EXPECT_TRUE(ReducesEachMicroBatch(Sharding::kGradients));
  EXPECT_FALSE(ReducesEachMicroBatch(Sharding::kOptimizer));
  EXPECT_FALSE(ReducesEachMicroBatch(Sharding::kNone));
}

}  // namespace
}  // namespace reprise

#include "tests/tools/collective_checks.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace reprise::testing {
namespace {

// Shards in floats: none, one, the least multiple of 128 bytes, off a vector, about 256 and 512 KiB, off any chunk.
constexpr int64_t kShards[] = {0, 1, 32, 33, 65536, 65536 + 32, 131072 - 32, 131072 + 1, 500001};

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

std::byte ByteOf(int rank, int64_t index) {
  return static_cast<std::byte>(Mix(static_cast<uint64_t>(rank) * 1000003 + static_cast<uint64_t>(index) + 17));
}

// ((g0 + g1) + g2) + ...: the specification, in its plainest form.
float SumOverRanks(int ranks, int64_t index) {
  float sum = RoughValue(0, index);
  for (int rank = 1; rank < ranks; ++rank) sum = sum + RoughValue(rank, index);
  return sum;
}

std::vector<float> WholeOf(int rank, int64_t elements) {
  std::vector<float> whole(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i) whole[static_cast<size_t>(i)] = RoughValue(rank, i);
  return whole;
}

// The first difference in bits, if any: one message, not one an element.
void ExpectSameBits(const float* actual, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(float)) != 0) {
      ADD_FAILURE() << "element " << i << " of " << expected.size() << " is " << actual[i] << ", not " << expected[i];
      return;
    }
  }
}

absl::Status ReduceScatterAndWait(Communicator& communicator, const ReduceScatterArguments& arguments) {
  Completion done;
  communicator.ReduceScatter(Sequence::kReduce, arguments, &done);
  return done.Wait();
}

std::vector<float> ExpectedShard(const Communicator& communicator, int64_t shard) {
  std::vector<float> expected(static_cast<size_t>(shard));
  for (int64_t i = 0; i < shard; ++i) {
    expected[static_cast<size_t>(i)] = SumOverRanks(communicator.size(), communicator.rank() * shard + i);
  }
  return expected;
}

}  // namespace

float RoughValue(int rank, int64_t index) {
  const uint64_t bits = Mix(static_cast<uint64_t>(rank + 1) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(index));
  const double fraction = static_cast<double>(bits >> 11) / 9007199254740992.0 - 0.5;
  return static_cast<float>(std::ldexp(fraction, static_cast<int>(bits % 24)));
}

std::vector<float> ReduceRoughValues(Communicator& communicator, int64_t shard_elements) {
  const std::vector<float> whole = WholeOf(communicator.rank(), shard_elements * communicator.size());
  std::vector<float> shard(static_cast<size_t>(shard_elements), -1.0F);
  EXPECT_EQ(ReduceScatterAndWait(communicator, {"rough", whole.data(), shard.data(), shard_elements, false}),
            absl::OkStatus());
  return shard;
}

void CheckAllGather(Communicator& communicator) {
  for (const int64_t elements : kShards) {
    for (const int64_t odd : {0, 3}) {
      const int64_t shard = elements * 4 + odd;
      SCOPED_TRACE(absl::StrCat("shard of ", shard, " bytes"));
      std::vector<std::byte> whole(static_cast<size_t>(shard * communicator.size()));
      for (int64_t i = 0; i < shard; ++i) {
        whole[static_cast<size_t>(communicator.rank() * shard + i)] = ByteOf(communicator.rank(), i);
      }
      Completion done;
      communicator.AllGather(Sequence::kGather, {"whole", whole.data(), shard}, &done);
      ASSERT_EQ(done.Wait(), absl::OkStatus());
      int64_t wrong = 0;
      for (int rank = 0; rank < communicator.size(); ++rank) {
        for (int64_t i = 0; i < shard; ++i) wrong += whole[static_cast<size_t>(rank * shard + i)] != ByteOf(rank, i);
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

void CheckReduceScatter(Communicator& communicator) {
  for (const int64_t shard : kShards) {
    SCOPED_TRACE(absl::StrCat("shard of ", shard, " floats"));
    ExpectSameBits(ReduceRoughValues(communicator, shard).data(), ExpectedShard(communicator, shard));
  }
}

void CheckReduceScatterAccumulates(Communicator& communicator) {
  for (const int64_t shard : kShards) {
    SCOPED_TRACE(absl::StrCat("shard of ", shard, " floats"));
    const std::vector<float> whole = WholeOf(communicator.rank(), shard * communicator.size());
    std::vector<float> sum(static_cast<size_t>(shard));
    std::vector<float> expected = ExpectedShard(communicator, shard);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = RoughValue(77, static_cast<int64_t>(i));
      expected[i] = sum[i] + expected[i];
    }
    ASSERT_EQ(ReduceScatterAndWait(communicator, {"sum", whole.data(), sum.data(), shard, true}), absl::OkStatus());
    ExpectSameBits(sum.data(), expected);
  }
}

void CheckReduceScatterInPlace(Communicator& communicator) {
  for (const int64_t shard : kShards) {
    SCOPED_TRACE(absl::StrCat("shard of ", shard, " floats"));
    std::vector<float> whole = WholeOf(communicator.rank(), shard * communicator.size());
    float* own = whole.data() + communicator.rank() * shard;
    ASSERT_EQ(ReduceScatterAndWait(communicator, {"in place", whole.data(), own, shard, false}), absl::OkStatus());
    ExpectSameBits(own, ExpectedShard(communicator, shard));
    // The other parts are only read.
    const std::vector<float> before = WholeOf(communicator.rank(), shard * communicator.size());
    for (int rank = 0; rank < communicator.size(); ++rank) {
      if (rank == communicator.rank()) continue;
      const int64_t offset = rank * shard;
      ExpectSameBits(whole.data() + offset, {before.begin() + offset, before.begin() + offset + shard});
    }
  }
}

void CheckAllReduce(Communicator& communicator) {
  for (const int64_t count : {0, 1, 3, 1000, 70000}) {
    SCOPED_TRACE(absl::StrCat(count, " doubles"));
    const auto value = [](int rank, int64_t i) { return 1e-3 * RoughValue(rank, i) + RoughValue(rank, i + 1000000); };
    std::vector<double> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = value(communicator.rank(), i);
    ASSERT_EQ(AllReduce(communicator, "values", absl::MakeSpan(values)), absl::OkStatus());
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      double sum = value(0, i);
      for (int rank = 1; rank < communicator.size(); ++rank) sum = sum + value(rank, i);
      wrong += sum != values[static_cast<size_t>(i)];
    }
    EXPECT_EQ(wrong, 0);
  }
}

void CheckBroadcast(Communicator& communicator) {
  for (int root = 0; root < communicator.size(); ++root) {
    for (const int64_t size : {0, 1, 4096, 524288, 2000003}) {
      SCOPED_TRACE(absl::StrCat(size, " bytes from rank ", root));
      std::vector<std::byte> bytes(static_cast<size_t>(size));
      if (communicator.rank() == root) {
        for (int64_t i = 0; i < size; ++i) bytes[static_cast<size_t>(i)] = ByteOf(root, i);
      }
      ASSERT_EQ(Broadcast(communicator, "bytes", absl::MakeSpan(bytes), root), absl::OkStatus());
      int64_t wrong = 0;
      for (int64_t i = 0; i < size; ++i) wrong += bytes[static_cast<size_t>(i)] != ByteOf(root, i);
      EXPECT_EQ(wrong, 0);
    }
  }
}

void CheckBarrier(Communicator& communicator) {
  for (int i = 0; i < 100; ++i) {
    Completion done;
    communicator.Barrier(i % 3 == 0 ? Sequence::kReduce : Sequence::kGather, &done);
    ASSERT_EQ(done.Wait(), absl::OkStatus());
  }
}

void CheckManyInFlight(Communicator& communicator) {
  constexpr int kCalls = 100;
  constexpr int64_t kShard = 1000;
  std::vector<std::vector<float>> wholes;
  std::vector<std::vector<float>> shards(kCalls, std::vector<float>(kShard));
  const auto done = std::make_unique<Completion[]>(kCalls);
  for (int call = 0; call < kCalls; ++call)
    wholes.push_back(WholeOf(communicator.rank(), kShard * communicator.size()));
  for (int call = 0; call < kCalls; ++call) {
    const auto i = static_cast<size_t>(call);
    communicator.ReduceScatter(Sequence::kReduce, {"many", wholes[i].data(), shards[i].data(), kShard, false},
                               &done[i]);
  }
  const std::vector<float> expected = ExpectedShard(communicator, kShard);
  for (size_t i = 0; i < kCalls; ++i) {
    ASSERT_EQ(done[i].Wait(), absl::OkStatus());
    ExpectSameBits(shards[i].data(), expected);
  }
}

void CheckOppositeOrders(Communicator& communicator) {
  constexpr int64_t kShard = 300000;
  const std::vector<float> whole = WholeOf(communicator.rank(), kShard * communicator.size());
  std::vector<float> shard(kShard);
  std::vector<float> gathered(static_cast<size_t>(kShard * communicator.size()));
  const std::vector<float> expected = ExpectedShard(communicator, kShard);
  for (int round = 0; round < 10; ++round) {
    std::copy_n(whole.begin() + communicator.rank() * kShard, kShard, gathered.begin() + communicator.rank() * kShard);
    Completion gather;
    Completion reduce;
    const auto start_gather = [&] {
      communicator.AllGather(Sequence::kGather, {"g", reinterpret_cast<std::byte*>(gathered.data()), kShard * 4},
                             &gather);
    };
    const auto start_reduce = [&] {
      communicator.ReduceScatter(Sequence::kReduce, {"r", whole.data(), shard.data(), kShard, false}, &reduce);
    };
    // Neighbours start, and wait for, the two sequences in opposite orders.
    if ((communicator.rank() + round) % 2 == 0) {
      start_gather();
      start_reduce();
      ASSERT_EQ(gather.Wait(), absl::OkStatus());
      ASSERT_EQ(reduce.Wait(), absl::OkStatus());
    } else {
      start_reduce();
      start_gather();
      ASSERT_EQ(reduce.Wait(), absl::OkStatus());
      ASSERT_EQ(gather.Wait(), absl::OkStatus());
    }
    ExpectSameBits(shard.data(), expected);
    for (int rank = 0; rank < communicator.size(); ++rank) {
      ASSERT_EQ(gathered[static_cast<size_t>(rank * kShard + 5)], RoughValue(rank, rank * kShard + 5));
    }
  }
}

void CheckTexts(Communicator& communicator) {
  const auto text_of = [](int rank) { return std::string(static_cast<size_t>(rank * 5), 'a') + std::to_string(rank); };
  const auto texts = AllGatherText(communicator, text_of(communicator.rank()));
  ASSERT_EQ(texts.status(), absl::OkStatus());
  ASSERT_EQ(static_cast<int>(texts->size()), communicator.size());
  for (int rank = 0; rank < communicator.size(); ++rank) EXPECT_EQ((*texts)[static_cast<size_t>(rank)], text_of(rank));
  const auto empty = AllGatherText(communicator, "");
  ASSERT_EQ(empty.status(), absl::OkStatus());
  EXPECT_EQ(*empty, std::vector<std::string>(static_cast<size_t>(communicator.size())));
}

void CheckAgree(Communicator& communicator) {
  EXPECT_EQ(Agree(communicator, absl::OkStatus()), absl::OkStatus());
  const int last = communicator.size() - 1;
  const absl::Status lost = absl::DataLossError("model.safetensors is cut short");
  EXPECT_EQ(Agree(communicator, communicator.rank() == last ? lost : absl::OkStatus()), lost);
  // All fail: the first in rank order is everyone's.
  const auto error_of = [](int rank) { return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " says no")); };
  EXPECT_EQ(Agree(communicator, error_of(communicator.rank())), error_of(0));
  EXPECT_EQ(Agree(communicator, communicator.rank() == 0 ? absl::OutOfRangeError("") : absl::OkStatus()),
            absl::OutOfRangeError(""));
}

}  // namespace reprise::testing

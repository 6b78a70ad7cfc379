// A number that is not finite stops a step on every rank alike: nothing is updated, and no rank is left alone in a
// collective that the others skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "models/gpt2.h"
#include "runtime/train/training_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

constexpr int kRanks = 3;
constexpr double kDeadlineSeconds = 5;

class NotFiniteTest : public ::testing::TestWithParam<Sharding> {};

// One rank of a job whose first layer holds an infinite weight.
void StopsAndGoesOn(Sharding sharding, const StreamOrder& order, Communicator& communicator) {
  const Model model = Gpt2({.vocab_size = 11, .n_positions = 4, .n_embd = 8, .n_layer = 3, .n_head = 2});
  JobOptions options;
  options.sequence_length = 4;
  options.sharding = sharding;
  const auto job =
      TrainingJob::Create(model, options, {.stream_order = order, .deadline_seconds = kDeadlineSeconds}, communicator);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto source = [](const Parameter& parameter, int64_t /*first*/, absl::Span<float> out) {
    const bool infinite = parameter.name() == "transformer.h.0.mlp.c_fc.weight";
    std::fill(out.begin(), out.end(), infinite ? std::numeric_limits<float>::infinity() : 0.5F);
    return absl::OkStatus();
  };
  ASSERT_TRUE((*job)->SetParameters(source).ok());
  for (size_t i = 0; i < 4; ++i) {
    (*job)->tokens(0)[i] = static_cast<int32_t>(i);
    (*job)->labels(0)[i] = static_cast<int32_t>(i + 1);
  }
  const auto result = (*job)->Step({.learning_rate = 1, .counted_labels = 4});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange) << result.status();
  // A communicator that failed once fails every later call.
  ASSERT_EQ(Barrier(communicator), absl::OkStatus());
  for (const Parameter* parameter : (*job)->parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->elements()));
    ASSERT_TRUE((*job)->ReadParameter(*parameter, absl::MakeSpan(values)).ok());
    std::vector<float> before(values.size());
    ASSERT_TRUE(source(*parameter, 0, absl::MakeSpan(before)).ok());
    EXPECT_EQ(values, before) << parameter->name();
  }
}

TEST_P(NotFiniteTest, StopsEveryRankAlike) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto run = [&](Communicator& communicator) {
      const auto rank = static_cast<uint64_t>(communicator.rank());
      StopsAndGoesOn(GetParam(), {.random = seed > 0, .seed = seed * 8 + rank}, communicator);
    };
    testing::RunRanks(kRanks, run, kDeadlineSeconds);
    ASSERT_FALSE(HasFailure()) << "in the order of seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, NotFiniteTest,
                         ::testing::Values(Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer,
                                           Sharding::kNone),
                         [](const auto& info) { return std::string(ShardingName(info.param)); });

}  // namespace
}  // namespace reprise

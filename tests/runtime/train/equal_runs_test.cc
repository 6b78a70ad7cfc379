// Jobs that must give the same numbers as another one: with and without checkpoints, with a rank that has nothing to
// say, with nothing to learn from at all; and jobs that ranks do not agree on.
#include <gmock/gmock.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/runtime/train/closed_form.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;

const Gpt2Config kSmall = {.vocab_size = 41, .n_positions = 12, .n_embd = 24, .n_layer = 5, .n_head = 3};

Case SmallCase(int ranks, int accumulation) {
  Case c;
  c.ranks = ranks;
  c.model = kSmall;
  c.parameters = RandomParameters(3);
  c.learning_rate = 1e-2;
  c.steps = 3;
  c.options.micro_batch = 2;
  c.options.accumulation = accumulation;
  return c;
}

void ExpectSameBits(const CaseRun& a, const CaseRun& b, const std::string& what) {
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    ASSERT_EQ(a.ranks[rank].steps.size(), b.ranks[rank].steps.size()) << what;
    for (size_t step = 0; step < a.ranks[rank].steps.size(); ++step) {
      EXPECT_EQ(a.ranks[rank].steps[step].loss, b.ranks[rank].steps[step].loss) << what << " step " << step;
      EXPECT_EQ(a.ranks[rank].steps[step].gradient_norm, b.ranks[rank].steps[step].gradient_norm) << what;
    }
    EXPECT_EQ(a.ranks[rank].gradients, b.ranks[rank].gradients) << what;
    EXPECT_EQ(a.ranks[rank].parameters, b.ranks[rank].parameters) << what;
  }
}

void ExpectCheckpointsChangeNothing(Case c) {
  const std::vector<Row> rows = MixedRows(c.ranks * c.options.micro_batch * c.options.accumulation, 12, 41);
  c.options.checkpoint = "none";
  const CaseRun plain = RunCase(c, rows);
  EXPECT_EQ(plain.ranks[0].steps[0].recomputed_flops, 0);
  for (const char* policy : {"all", "every:2", "every:3", "sqrt"}) {
    c.options.checkpoint = policy;
    const CaseRun checkpointed = RunCase(c, rows);
    EXPECT_GT(checkpointed.ranks[0].steps[0].recomputed_flops, 0) << policy;
    ExpectSameBits(plain, checkpointed, policy);
  }
}

TEST(EqualRuns, CheckpointsUnderDropout) {
  Case c = SmallCase(/*ranks=*/2, /*accumulation=*/2);
  c.model.dropout = 0.1;
  ExpectCheckpointsChangeNothing(c);
}

TEST(EqualRuns, CheckpointsInBfloat16) {
  Case c = SmallCase(/*ranks=*/2, /*accumulation=*/1);
  c.options.dtype = DType::kBFloat16;
  ExpectCheckpointsChangeNothing(c);
}

// The test above could not fail if dropout did nothing.
TEST(EqualRuns, DropoutDropsAndFollowsTheSeed) {
  Case c = SmallCase(1, 1);
  const std::vector<Row> rows = MixedRows(2, 12, 41);
  const CaseRun without = RunCase(c, rows);
  c.model.dropout = 0.1;
  const CaseRun with = RunCase(c, rows);
  ++c.seed;
  const CaseRun other = RunCase(c, rows);
  EXPECT_NE(without.ranks[0].steps[0].loss, with.ranks[0].steps[0].loss);
  EXPECT_NE(other.ranks[0].steps[0].loss, with.ranks[0].steps[0].loss);
}

// Masks belong to a sequence of the global step, not to a rank: only the order of sums may differ.
TEST(EqualRuns, DropoutDoesNotDependOnRanks) {
  const std::vector<Row> rows = MixedRows(4, 12, 41);
  Case c = SmallCase(1, 2);
  c.model.dropout = 0.1;
  c.steps = 1;
  const CaseRun one = RunCase(c, rows);
  c.ranks = 2;
  c.options.accumulation = 1;
  const CaseRun two = RunCase(c, rows);
  EXPECT_NEAR(one.ranks[0].steps[0].loss, two.ranks[0].steps[0].loss, 1e-6);
  for (const auto& [name, values] : one.ranks[0].gradients) {
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], two.ranks[1].gradients.at(name)[i], 1e-6) << name << " element " << i;
    }
  }
}

TEST(EqualRuns, ARankWhoseLabelsDoNotCount) {
  std::vector<Row> rows = MixedRows(4, 12, 41);
  const std::vector<Row> second(rows.begin() + 2, rows.end());
  for (Row& row : rows) {
    if (&row - rows.data() < 2) row.labels.assign(12, -100);
  }
  for (const Sharding sharding : {Sharding::kFull, Sharding::kNone}) {
    Case c = SmallCase(2, 1);
    c.options.sharding = sharding;
    c.steps = 1;
    const CaseRun both = RunCase(c, rows);
    c.ranks = 1;
    const CaseRun alone = RunCase(c, second);
    for (const RankRun& rank : both.ranks) {
      EXPECT_EQ(rank.steps[0].counted_labels, 24);
      EXPECT_EQ(rank.steps[0].loss, alone.ranks[0].steps[0].loss);
      EXPECT_EQ(rank.gradients, alone.ranks[0].gradients);
      EXPECT_NEAR(rank.steps[0].gradient_norm, alone.ranks[0].steps[0].gradient_norm, 1e-12);
    }
  }
}

TEST(EqualRuns, NoLabelThatCounts) {
  std::vector<Row> rows = MixedRows(4, 12, 41);
  for (Row& row : rows) row.labels.assign(12, -100);
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    Case c = SmallCase(2, 1);
    c.options.optimizer.kind = kind;
    const CaseRun trained = RunCase(c, rows);
    c.learning_rate = 0;
    const CaseRun still = RunCase(c, rows);
    for (size_t rank = 0; rank < 2; ++rank) {
      for (const StepResult& step : trained.ranks[rank].steps) {
        EXPECT_EQ(step.loss, 0);
        EXPECT_EQ(step.gradient_norm, 0);
        EXPECT_EQ(step.counted_labels, 0);
        EXPECT_FALSE(step.updated);
      }
      EXPECT_EQ(trained.ranks[rank].parameters, still.ranks[rank].parameters);
    }
  }
}

TEST(Disagreement, RanksWithOtherPlansAreToldSo) {
  RunRanks(2, [](Communicator& communicator) {
    JobOptions options;
    options.sequence_length = 8;
    options.checkpoint = communicator.rank() == 0 ? "none" : "all";
    const auto job = TrainingJob::Create(Gpt2(kSmall), options, {.threads = 1}, communicator);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(job.status().message()), HasSubstr("rank 1 compiled another schedule than rank 0"));
  });
}

// One rank's file is bad: every rank learns of it, and none waits for the others.
TEST(Disagreement, ParametersThatOneRankCannotRead) {
  RunRanks(3, [](Communicator& communicator) {
    JobOptions options;
    options.sequence_length = 8;
    auto job = TrainingJob::Create(Gpt2(kSmall), options, {.threads = 1}, communicator);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::Status status = (*job)->SetParameters([&](const Parameter&, int64_t, absl::Span<float> out) {
      std::fill(out.begin(), out.end(), 0.0F);
      return communicator.rank() == 1 ? absl::DataLossError("model.safetensors ends early") : absl::OkStatus();
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors ends early"));
  });
}

// A rank that is alone in its step: the others end by the deadline, with the name of what they wait for.
TEST(Disagreement, ARankThatDoesNotStep) {
  RunRanks(
      2,
      [](Communicator& communicator) {
        JobOptions options;
        options.sequence_length = 8;
        auto job = TrainingJob::Create(Gpt2(kSmall), options, {.threads = 1, .deadline_seconds = 1}, communicator);
        ASSERT_TRUE(job.ok()) << job.status();
        ASSERT_TRUE((*job)->SetParameters(RandomParameters(1)).ok());
        if (communicator.rank() == 1) return;
        const auto result = (*job)->Step({.counted_labels = 8});
        EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << result.status();
        EXPECT_THAT(std::string(result.status().message()), HasSubstr("rank 1"));
      },
      /*deadline_seconds=*/1);
}

// A number that is not finite ends the step on every rank and changes nothing.
TEST(Disagreement, ANumberThatIsNotFinite) {
  RunRanks(2, [](Communicator& communicator) {
    JobOptions options;
    options.sequence_length = 8;
    auto job = TrainingJob::Create(Gpt2(kSmall), options, {.threads = 1}, communicator);
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE((*job)->SetParameters(ByName({{"transformer.ln_f.bias", NAN}, {kTokenTable, 1}})).ok());
    const auto result = (*job)->Step({.learning_rate = 1, .counted_labels = 8});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange) << result.status();
    for (const Parameter* parameter : (*job)->parameters()) {
      if (parameter->name() != kTokenTable) continue;
      std::vector<float> values(static_cast<size_t>(parameter->elements()));
      ASSERT_TRUE((*job)->ReadParameter(*parameter, absl::MakeSpan(values)).ok());
      EXPECT_THAT(values, ::testing::Each(1.0F));
    }
  });
}

}  // namespace
}  // namespace reprise::testing

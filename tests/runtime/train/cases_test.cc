// What went wrong in other training software, as small jobs with the right answer in closed form: losses, gradients and
// norms of a GPT-2 that predicts every token alike (F0), over ranks, micro-batches, shardings and precisions.
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/runtime/train/closed_form.h"

namespace reprise::testing {
namespace {

constexpr Sharding kShardings[] = {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone};
constexpr DType kPrecisions[] = {DType::kFloat32, DType::kBFloat16};

const std::vector<float>& TokenGradient(const RankRun& run) { return run.gradients.at(kTokenTable); }

// Row v of the token table's gradient is 1/V - share(v) in every column.
void ExpectShares(const RankRun& run, const std::vector<double>& shares, double tolerance) {
  const std::vector<float>& gradient = TokenGradient(run);
  const size_t vocabulary = shares.size();
  const size_t width = gradient.size() / vocabulary;
  double square = 0;
  for (size_t v = 0; v < vocabulary; ++v) {
    const double expected = 1.0 / static_cast<double>(vocabulary) - shares[v];
    square += static_cast<double>(width) * expected * expected;
    for (size_t c = 0; c < width; ++c) {
      ASSERT_NEAR(gradient[v * width + c], expected, tolerance) << "token " << v << " column " << c;
    }
  }
  EXPECT_NEAR(run.steps[0].gradient_norm, std::sqrt(square), tolerance * 10 + 1e-12);
}

std::vector<double> SharesOf(const std::vector<Row>& rows, int64_t vocabulary) {
  std::vector<double> counts(static_cast<size_t>(vocabulary));
  double total = 0;
  for (const Row& row : rows) {
    for (const int32_t label : row.labels) {
      if (label < 0) continue;
      ++counts[static_cast<size_t>(label)];
      ++total;
    }
  }
  for (double& count : counts) count /= total;
  return counts;
}

std::vector<Row> AllZero(int64_t count, int64_t length) {
  return std::vector<Row>(static_cast<size_t>(count), Row{std::vector<int32_t>(static_cast<size_t>(length)),
                                                          std::vector<int32_t>(static_cast<size_t>(length))});
}

// (ranks, accumulation, sharding, precision)
using Split = std::tuple<int, int, Sharding, DType>;

std::string SplitName(const ::testing::TestParamInfo<Split>& info) {
  return absl::StrCat("R", std::get<0>(info.param), "_acc", std::get<1>(info.param), "_",
                      ShardingName(std::get<2>(info.param)), "_",
                      std::get<3>(info.param) == DType::kBFloat16 ? "bf16" : "fp32");
}

Case CaseOf(const Split& split, int64_t rows, ParameterSource parameters) {
  Case c;
  c.ranks = std::get<0>(split);
  c.options.accumulation = std::get<1>(split);
  c.options.micro_batch = rows / (c.ranks * c.options.accumulation);
  c.options.sharding = std::get<2>(split);
  c.options.dtype = std::get<3>(split);
  c.parameters = std::move(parameters);
  return c;
}

class ClosedForm : public ::testing::TestWithParam<Split> {};

TEST_P(ClosedForm, F0IsTheShareOfEachToken) {
  const std::vector<Row> rows = MixedRows(12, 5, 4);
  const CaseRun run = RunCase(CaseOf(GetParam(), 12, F0()), rows);
  for (const RankRun& rank : run.ranks) {
    EXPECT_NEAR(rank.steps[0].loss, std::log(4.0), 1e-6);
    ExpectShares(rank, SharesOf(rows, 4), 1e-7);
    ExpectOnlyTokenTableHasGradients(rank);
  }
}

TEST_P(ClosedForm, F0bHasTheSameLossAndGradients) {
  const std::vector<Row> rows = MixedRows(12, 5, 4);
  const CaseRun run = RunCase(CaseOf(GetParam(), 12, F0b()), rows);
  for (const RankRun& rank : run.ranks) {
    EXPECT_NEAR(rank.steps[0].loss, std::log(4.0), 1e-6);
    ExpectShares(rank, SharesOf(rows, 4), 1e-7);
    ExpectOnlyTokenTableHasGradients(rank);
  }
}

// Labels of rank 0 or micro-batch 0 are all of class 0, those behind it hold one of class 1 and nothing else: a mean of
// means would count that one as much as the many.
TEST_P(ClosedForm, LabelsThatAreIgnoredUnevenly) {
  std::vector<Row> rows = AllZero(12, 5);
  for (size_t r = 1; r < rows.size(); ++r) rows[r].labels.assign(5, -100);
  rows.back().labels[3] = 1;
  const CaseRun run = RunCase(CaseOf(GetParam(), 12, F0()), rows);
  for (const RankRun& rank : run.ranks) {
    EXPECT_EQ(rank.steps[0].counted_labels, 6);
    EXPECT_NEAR(rank.steps[0].loss, std::log(4.0), 1e-6);
    ExpectShares(rank, {5.0 / 6, 1.0 / 6, 0, 0}, 1e-7);  // -7/12, 1/12, 1/4, 1/4
    ExpectOnlyTokenTableHasGradients(rank);
  }
}

std::vector<Split> Splits() {
  std::vector<Split> splits;
  for (const Sharding sharding : kShardings) {
    for (const DType dtype : kPrecisions) {
      for (const auto& [ranks, accumulation] : {std::pair(1, 1), {1, 4}, {2, 1}, {2, 2}, {3, 2}, {4, 1}}) {
        splits.emplace_back(ranks, accumulation, sharding, dtype);
      }
    }
  }
  return splits;
}

INSTANTIATE_TEST_SUITE_P(Splits, ClosedForm, ::testing::ValuesIn(Splits()), SplitName);

TEST(Cases, F0AtAnyDepth) {
  const std::vector<Row> rows = MixedRows(3, 7, 4);
  for (const int64_t layers : {1, 3, 7}) {
    Case c;
    c.parameters = F0();
    c.model.n_layer = layers;
    c.options.micro_batch = 3;
    c.options.checkpoint = layers == 7 ? "sqrt" : "all";
    const CaseRun run = RunCase(c, rows);
    EXPECT_NEAR(run.ranks[0].steps[0].loss, std::log(4.0), 1e-6);
    ExpectShares(run.ranks[0], SharesOf(rows, 4), 1e-7);
    ExpectOnlyTokenTableHasGradients(run.ranks[0]);
  }
}

TEST(Cases, VocabulariesThatAreNoPowerOfTwo) {
  for (const int64_t vocabulary : {1, 3, 5, 97, 130}) {
    const std::vector<Row> rows = MixedRows(4, 9, vocabulary);
    for (const ParameterSource& parameters : {F0(), F0b()}) {
      Case c;
      c.ranks = 2;
      c.parameters = parameters;
      c.model.vocab_size = vocabulary;
      c.options.micro_batch = 2;
      const CaseRun run = RunCase(c, rows);
      EXPECT_NEAR(run.ranks[0].steps[0].loss, std::log(static_cast<double>(vocabulary)), 2e-6) << vocabulary;
      ExpectShares(run.ranks[1], SharesOf(rows, vocabulary), 1e-6);
      for (const auto& [name, values] : run.ranks[0].gradients) {
        if (name == kTokenTable) continue;
        for (const float value : values) ASSERT_NEAR(value, 0, 1e-6) << name;
      }
    }
  }
}

// Z4: each of four tokens is the target four times, so that its gradient is exactly nothing.
TEST(Cases, BalancedTargetsCancelExactly) {
  const std::vector<int32_t> stream = {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  for (const size_t length : {size_t{2}, size_t{4}}) {
    const std::vector<Row> rows = Windows(stream, length);
    for (const Sharding sharding : kShardings) {
      for (const DType dtype : kPrecisions) {
        for (const auto& [ranks, accumulation] : {std::pair(1, 4), {2, 2}, {4, 1}}) {
          const Case c = CaseOf({ranks, accumulation, sharding, dtype}, static_cast<int64_t>(rows.size()), F0());
          for (const RankRun& rank : RunCase(c, rows).ranks) {
            for (const float value : TokenGradient(rank)) ASSERT_EQ(value, 0);
            ExpectOnlyTokenTableHasGradients(rank);
            EXPECT_EQ(rank.steps[0].gradient_norm, 0);
          }
        }
      }
    }
  }
}

// Sums are kept unscaled: two micro-batches with one and five counted labels are one batch of six, to the bit.
TEST(Cases, AccumulationIsOneBatch) {
  std::vector<Row> rows = AllZero(2, 5);
  rows[0].labels = {-100, 1, -100, -100, -100};
  for (const DType dtype : kPrecisions) {
    const CaseRun split = RunCase(CaseOf({1, 2, Sharding::kFull, dtype}, 2, F0()), rows);
    const CaseRun whole = RunCase(CaseOf({1, 1, Sharding::kFull, dtype}, 2, F0()), rows);
    EXPECT_EQ(split.ranks[0].gradients, whole.ranks[0].gradients);
    EXPECT_EQ(split.ranks[0].steps[0].loss, whole.ranks[0].steps[0].loss);
    EXPECT_EQ(split.ranks[0].steps[0].gradient_norm, whole.ranks[0].steps[0].gradient_norm);
    ExpectShares(split.ranks[0], {5.0 / 6, 1.0 / 6, 0, 0}, 1e-7);
  }
}

// A tied weight that is counted twice has the norm 2.4494897.
TEST(Cases, ClippingByTheGlobalNorm) {
  for (const Sharding sharding : kShardings) {
    for (const DType dtype : kPrecisions) {
      for (int ranks = 1; ranks <= 4; ++ranks) {
        Case c = CaseOf({ranks, 1, sharding, dtype}, ranks, F0());
        c.learning_rate = 1;
        c.options.optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0, .clip_norm = 1};
        for (const RankRun& rank : RunCase(c, AllZero(ranks, 3)).ranks) {
          EXPECT_NEAR(rank.steps[0].gradient_norm, std::sqrt(3.0), 1e-12);
          const std::vector<float>& table = rank.parameters.at(kTokenTable);
          for (size_t i = 0; i < table.size(); ++i) EXPECT_NEAR(table[i], i < 4 ? 0.4330125 : -0.1443375, 1e-7);
        }
      }
    }
  }
}

// Sums that are kept in bfloat16 stand still at 0.125 and -0.5.
void ExpectSumsDoNotStandStill(Sharding sharding) {
  Case c = CaseOf({1, 512, sharding, DType::kBFloat16}, 512, F0());
  c.model.n_layer = 1;
  const CaseRun run = RunCase(c, AllZero(512, 2));
  const std::vector<float>& gradient = TokenGradient(run.ranks[0]);
  for (size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient[i], i < 4 ? -0.75F : 0.25F);
}

TEST(Cases, ManyMicroBatchesInBfloat16) { ExpectSumsDoNotStandStill(Sharding::kFull); }

TEST(Cases, ManyMicroBatchesInBfloat16OtherShardingsLong) {
  for (const Sharding sharding : {Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    ExpectSumsDoNotStandStill(sharding);
  }
}

TEST(Cases, Bfloat16OverRanksEqualsFloat32) {
  const std::vector<Row> rows = MixedRows(12, 4, 4);
  for (const Sharding sharding : kShardings) {
    for (const int ranks : {2, 3, 4}) {
      const CaseRun narrow = RunCase(CaseOf({ranks, 1, sharding, DType::kBFloat16}, 12, F0()), rows);
      const CaseRun wide = RunCase(CaseOf({ranks, 1, sharding, DType::kFloat32}, 12, F0()), rows);
      for (size_t rank = 0; rank < narrow.ranks.size(); ++rank) {
        EXPECT_EQ(narrow.ranks[rank].gradients, wide.ranks[rank].gradients);
        EXPECT_EQ(narrow.ranks[rank].steps[0].gradient_norm, wide.ranks[rank].steps[0].gradient_norm);
        EXPECT_EQ(narrow.ranks[rank].steps[0].loss, wide.ranks[rank].steps[0].loss);
      }
    }
  }
}

// A loss in bfloat16 gives 10.8125; a vocabulary padded to 50304 gives 10.825840.
TEST(Cases, LossOfALargeVocabulary) {
  for (const DType dtype : kPrecisions) {
    for (const int ranks : {1, 2}) {
      Case c = CaseOf({ranks, 1, Sharding::kFull, dtype}, 2, F0());
      c.model.vocab_size = 50257;
      c.model.n_layer = 1;
      const std::vector<Row> rows = {{{0, 50256, 17}, {50256, 0, 40000}}, {{1, 2, 3}, {-100, 50255, 4}}};
      for (const RankRun& rank : RunCase(c, rows).ranks) EXPECT_NEAR(rank.steps[0].loss, 10.824905, 1e-6);
    }
  }
}

}  // namespace
}  // namespace reprise::testing

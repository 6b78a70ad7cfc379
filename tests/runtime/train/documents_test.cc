// Packed documents: each has the loss and the gradients that it has alone.
#include "runtime/train/documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/train/training_job.h"
#include "tests/tools/equality_models.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

constexpr int32_t kSeparator = 3;
using Tokens = std::vector<int32_t>;

TEST(Documents, MarksStartsPositionsAndLabels) {
  const Tokens tokens = {5, 6, 3, 7, 8, 9, 3, 4};
  Tokens labels = {6, 3, 7, 8, 9, 3, 4, 1};
  Tokens positions(8), starts(8);
  MarkDocuments(kSeparator, tokens, absl::MakeSpan(labels), absl::MakeSpan(positions), absl::MakeSpan(starts));
  EXPECT_EQ(labels, (Tokens{6, 3, -100, 8, 9, 3, -100, 1}));
  EXPECT_EQ(positions, (Tokens{0, 1, 2, 0, 1, 2, 3, 0}));
  EXPECT_EQ(starts, (Tokens{0, 0, 0, 3, 3, 3, 3, 7}));
}

TEST(Documents, EmptyOnesAreOneSeparatorLong) {
  const Tokens tokens = {3, 3, 5};
  Tokens labels = {3, 5, 3};
  Tokens positions(3), starts(3);
  MarkDocuments(kSeparator, tokens, absl::MakeSpan(labels), absl::MakeSpan(positions), absl::MakeSpan(starts));
  EXPECT_EQ(labels, (Tokens{-100, -100, 3}));
  EXPECT_EQ(positions, (Tokens{0, 0, 0}));
  EXPECT_EQ(starts, (Tokens{0, 1, 2}));
}

struct Sums {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
};

// Sums over all labels that count.
Sums RunRows(const Model& model, const std::vector<Tokens>& rows, int64_t length) {
  JobOptions options;
  options.micro_batch = static_cast<int64_t>(rows.size());
  options.sequence_length = length;
  Sums sums;
  testing::RunRanks(1, [&](Communicator& communicator) {
    auto created = TrainingJob::Create(model, options, {.threads = 1}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    ASSERT_TRUE(job.SetParameters(RandomParameters(5)).ok());
    const Batch batch = job.batch(0);
    for (size_t r = 0; r < rows.size(); ++r) {
      const BatchData part = batch.Row(static_cast<int64_t>(r), options.micro_batch);
      const auto tokens = DataAs<int32_t>(part, DataKind::kTokens);
      const auto labels = DataAs<int32_t>(part, DataKind::kLabels);
      const size_t count = rows[r].size();
      std::copy(rows[r].begin(), rows[r].end(), tokens.begin());
      std::copy(rows[r].begin() + 1, rows[r].end(), labels.begin());
      std::fill(labels.begin() + static_cast<int64_t>(count) - 1, labels.end(), -100);
      const auto positions = DataAs<int32_t>(part, DataKind::kPositions);
      if (positions.empty()) continue;
      MarkDocuments(kSeparator, tokens, labels, positions, DataAs<int32_t>(part, DataKind::kDocumentStarts));
    }
    const auto counted =
        std::count_if(batch.labels().begin(), batch.labels().end(), [](int32_t label) { return label >= 0; });
    const auto result = job.Step({.learning_rate = 0, .counted_labels = counted});
    ASSERT_TRUE(result.ok()) << result.status();
    sums.loss = result->loss * static_cast<double>(counted);
    for (const Parameter* p : job.parameters()) {
      std::vector<float> values(static_cast<size_t>(p->elements()));
      ASSERT_TRUE(job.ReadGradient(*p, 1, absl::MakeSpan(values)).ok());
      sums.gradients[p->name()].assign(values.begin(), values.end());
    }
  });
  return sums;
}

Tokens Document(uint32_t seed, size_t count) {
  Tokens tokens;
  for (size_t i = 0; i + 1 < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(4 + static_cast<int32_t>((seed >> 8) % 50));
  }
  tokens.push_back(kSeparator);
  return tokens;
}

class PackedDocuments : public ::testing::TestWithParam<std::string> {};

// Over tiles of attention (48 rows): documents that end inside a tile, at its end, and span several.
TEST_P(PackedDocuments, HaveTheLossAndGradientsOfEachAlone) {
  for (const std::vector<size_t>& lengths :
       {std::vector<size_t>{3, 4}, {1, 1, 6}, {60, 36, 48, 6}, {5, 100, 2, 43}, {48, 48, 48, 6}}) {
    Tokens packed;
    std::vector<Tokens> alone;
    for (size_t d = 0; d < lengths.size(); ++d) {
      alone.push_back(Document(static_cast<uint32_t>(d * 7 + lengths.size()), lengths[d]));
      packed.insert(packed.end(), alone.back().begin(), alone.back().end());
    }
    const auto length = static_cast<int64_t>(packed.size());
    const auto model = [&](const std::string& name) {
      return testing::EqualityModelOfLength(name, /*layers=*/2, length);
    };
    const Sums expected = RunRows(model(GetParam()), alone, length);
    const Sums actual = RunRows(model(GetParam() + "_documents"), {packed}, length);
    EXPECT_NEAR(actual.loss, expected.loss, 1e-6 * expected.loss);
    for (const auto& [name, gradient] : expected.gradients) {
      double largest = 0;
      for (const double value : gradient) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < gradient.size(); ++i) {
        ASSERT_NEAR(actual.gradients.at(name)[i], gradient[i], 1e-5 * largest) << name << " element " << i;
      }
    }
    // Without documents the later ones see the earlier: another loss.
    const Sums joined = RunRows(model(GetParam()), {packed}, length);
    EXPECT_GT(std::abs(joined.loss - expected.loss), 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PackedDocuments, ::testing::Values("gpt2", "llama", "qwen2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace reprise

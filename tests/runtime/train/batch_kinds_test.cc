// A job holds the kinds of data that its model reads, in exact bytes, and no others.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "runtime/plan/layout.h"
#include "runtime/train/training_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

constexpr int64_t kRows = 3, kWidth = 4, kIds = 5;

// Looks `kind` up in a table where tokens would be; a label for each sequence.
class KindEmbedding : public Block {
 public:
  explicit KindEmbedding(DataKind kind)
      : Block("embedding"), kind_(kind), table_(*this, "table", {kIds, kWidth}, Initializer::Normal(0.5)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    const Tensor ids = kind_ == DataKind::kTokens      ? t.Tokens()
                       : kind_ == DataKind::kPositions ? t.Positions()
                                                       : t.DocumentStarts();
    return {Embedding(ids, t.Get(table_), t.sequence_length())};
  }

 private:
  DataKind kind_;
  Parameter table_;
};

class KindLayer : public Block {
 public:
  KindLayer() : Block("layer"), weight_(*this, "weight", {kWidth, kWidth}, Initializer::Normal(0.5)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    t.Pixels(1000);  // asked for, but nothing reads it
    return {Linear(boundary[0], t.Get(weight_))};
  }

 private:
  Parameter weight_;
};

class KindHead : public Block {
 public:
  KindHead() : Block("head"), weight_(*this, "weight", {kIds, kWidth}, Initializer::Normal(0.5)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(boundary[0], t.Get(weight_), t.SequenceLabels())};
  }

 private:
  Parameter weight_;
};

Model ModelOf(DataKind kind) {
  Model model;
  model.name = "kinds";
  model.blocks = {std::make_shared<KindEmbedding>(kind), std::make_shared<KindLayer>(), std::make_shared<KindHead>()};
  return model;
}

TEST(BatchKinds, AJobHoldsWhatItsModelReads) {
  std::vector<double> losses;
  std::vector<int64_t> peaks;
  for (const DataKind kind : {DataKind::kTokens, DataKind::kPositions, DataKind::kDocumentStarts}) {
    testing::RunRanks(1, [&](Communicator& communicator) {
      JobOptions options;
      options.micro_batch = kRows;
      options.sequence_length = 1;
      options.accumulation = 2;
      options.evaluates = true;
      auto created = TrainingJob::Create(ModelOf(kind), options, {}, communicator);
      ASSERT_TRUE(created.ok()) << created.status();
      TrainingJob& job = **created;
      int64_t batch_bytes = 0;
      for (const Item& item : job.plan().schedule.items) {
        if (item.kind == ItemKind::kBatch) batch_bytes += item.bytes;
      }
      EXPECT_EQ(batch_bytes, 3 * 8 + 2 * (kRows + kRows) * 4);  // scalars, then ids and labels twice
      for (int m = 0; m < 2; ++m) {
        for (int k = 0; k < kDataKindCount; ++k) {
          const auto other = static_cast<DataKind>(k);
          const bool read = other == kind || other == DataKind::kLabels;
          EXPECT_EQ(job.data(other, m).size(), read ? kRows * 4 : 0) << DataKindName(other);
        }
        const Batch batch = job.batch(m);
        for (int i = 0; i < kRows; ++i) {
          DataAs<int32_t>(batch.data, kind)[static_cast<size_t>(i)] = i + m;
          batch.labels()[static_cast<size_t>(i)] = i;
        }
      }
      ASSERT_TRUE(job.SetParameters(RandomParameters(1)).ok());
      const auto result = job.Step({.learning_rate = 1e-2, .counted_labels = 2 * kRows});
      ASSERT_TRUE(result.ok()) << result.status();
      losses.push_back(result->loss);
      peaks.push_back(job.plan().device_bytes());
    });
  }
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(peaks[0], peaks[1]);
}

TEST(BatchKinds, RowsThatDoNotCountAreZeroOfEveryKind) {
  std::vector<int32_t> labels = {1, 2, 3, 4}, positions = {5, 6, 7, 8};
  Batch batch;
  const auto put = [&](DataKind kind, std::vector<int32_t>& values) {
    batch.data[static_cast<size_t>(kind)] = {reinterpret_cast<std::byte*>(values.data()), values.size() * 4};
  };
  put(DataKind::kLabels, labels);
  put(DataKind::kPositions, positions);
  FillIgnored(batch.Row(1, 2));
  EXPECT_EQ(labels, (std::vector<int32_t>{1, 2, -100, -100}));
  EXPECT_EQ(positions, (std::vector<int32_t>{5, 6, 0, 0}));
  EXPECT_TRUE(batch.tokens().empty());
}

}  // namespace
}  // namespace reprise

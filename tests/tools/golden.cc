#include "tests/tools/golden.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/registry.h"
#include "runtime/snapshot/read_model_config.h"
#include "tests/tools/paths.h"

namespace reprise::testing {

std::vector<double> Golden::Numbers(const std::string& name) const {
  std::vector<double> values(static_cast<size_t>(expected->Find(name)->elements));
  EXPECT_TRUE(expected->Read(name, 0, absl::MakeSpan(values)).ok()) << name;
  return values;
}

double Golden::counted_labels() const {
  return static_cast<double>(std::count_if(labels.begin(), labels.end(), [](int64_t l) { return l != -100; }));
}

ParameterSource Golden::Parameters() const {
  return [this](const Parameter& parameter, int64_t first, absl::Span<float> out) {
    return checkpoint->ReadRange(parameter.name(), parameter.shape(), first, out);
  };
}

Golden LoadGolden(const std::string& name) {
  Golden g;
  Storage& storage = PosixStorage();
  auto config = ReadModelConfig(storage, FixturePath(name + "/config.json"));
  EXPECT_TRUE(config.ok()) << config.status();
  auto source = BuildModel("gpt2", *config, {});
  EXPECT_TRUE(source.ok()) << source.status();
  g.source = *std::move(source);
  auto checkpoint = HuggingFaceCheckpoint::Open(storage, FixturePath(name), g.source.checkpoint);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  g.checkpoint = *std::move(checkpoint);
  auto expected = SafetensorsFile::Open(storage, FixturePath(name + "/expected.safetensors"));
  EXPECT_TRUE(expected.ok()) << expected.status();
  g.expected = std::make_unique<SafetensorsFile>(*std::move(expected));
  const StoredTensor* input = g.expected->Find("input");
  g.rows = input->shape[0];
  const bool images = g.source.model.images.has_value();
  g.length = images ? g.source.model.sequence_length : input->shape[1];
  if (images) {
    g.pixels.resize(static_cast<size_t>(input->elements));
    EXPECT_TRUE(g.expected->Read("input", 0, absl::MakeSpan(g.pixels)).ok());
  } else {
    g.tokens.resize(static_cast<size_t>(input->elements));
    EXPECT_TRUE(g.expected->Read("input", 0, absl::MakeSpan(g.tokens)).ok());
  }
  g.labels.resize(static_cast<size_t>(g.expected->Find("labels")->elements));
  EXPECT_TRUE(g.expected->Read("labels", 0, absl::MakeSpan(g.labels)).ok());
  return g;
}

int64_t FillBatch(const Golden& g, int64_t first_row, int64_t rows, TrainingJob& job) {
  const Batch batch = job.batch(0);
  FillIgnored(batch.data);
  const auto first = static_cast<size_t>(first_row);
  const auto fill = [&](const auto& from, auto to) {
    const size_t row = from.size() / static_cast<size_t>(g.rows);
    EXPECT_EQ(to.size(), row * static_cast<size_t>(rows));
    for (size_t i = 0; i < to.size() && first * row + i < from.size(); ++i) {
      to[i] = static_cast<typename decltype(to)::value_type>(from[first * row + i]);
    }
  };
  fill(g.tokens, batch.tokens());
  fill(g.pixels, DataAs<float>(batch.data, DataKind::kPixels));
  fill(g.labels, batch.labels());
  const absl::Span<int32_t> labels = batch.labels();
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnoredLabel; });
}

}  // namespace reprise::testing

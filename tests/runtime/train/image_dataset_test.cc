#include "runtime/train/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/train/batches.h"
#include "tests/runtime/train/idx_data.h"
#include "tests/tools/fault_storage.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Gzip;
using ::testing::HasSubstr;
using testing::Idx;

constexpr char kImages[] = "d/train-images-idx3-ubyte";
constexpr char kLabels[] = "d/train-labels-idx1-ubyte";

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

struct Row {
  std::vector<float> pixels;
  std::vector<int32_t> label = {-1};

  explicit Row(const ImageInput& input) : pixels(static_cast<size_t>(input.channels * input.size * input.size)) {}
  BatchData Data() {
    BatchData data = {};
    data[static_cast<size_t>(DataKind::kPixels)] = {reinterpret_cast<std::byte*>(pixels.data()), pixels.size() * 4};
    data[static_cast<size_t>(DataKind::kLabels)] = {reinterpret_cast<std::byte*>(label.data()), 4};
    return data;
  }
};

Row Read(const ImageDataset& data, const ImageInput& input, int64_t index) {
  Row row(input);
  const auto counted = data.ReadSequence(index, row.Data());
  EXPECT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(*counted, 1);
  return row;
}

// Two images of 2 x 2 and their labels.
void PutPair(testing::MemoryStorage& storage, bool gzip) {
  const std::string images = Idx({2, 2, 2}, Bytes({0, 255, 51, 102, 255, 255, 0, 0}));
  const std::string labels = Idx({2}, Bytes({3, 1}));
  storage.Put(absl::StrCat(kImages, gzip ? ".gz" : ""), gzip ? Gzip(images) : images);
  storage.Put(absl::StrCat(kLabels, gzip ? ".gz" : ""), gzip ? Gzip(labels) : labels);
}

TEST(ImageDataset, PlainAndGzipGiveNormalisedPlanes) {
  const ImageInput input{.channels = 2, .size = 2, .classes = 4};
  for (const bool gzip : {false, true}) {
    testing::MemoryStorage storage;
    PutPair(storage, gzip);
    for (const std::string& path : {std::string("d"), absl::StrCat(kImages, gzip ? ".gz" : "")}) {
      const auto data = ImageDataset::Open(storage, {.path = path, .part = "train", .input = input});
      ASSERT_TRUE(data.ok()) << data.status();
      EXPECT_EQ((*data)->sequences(), 2);
      const Row row = Read(**data, input, 0);
      EXPECT_EQ(row.label[0], 3);
      const float expected[] = {-1, 1, -0.6F, -0.2F, -1, 1, -0.6F, -0.2F};
      for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(row.pixels[i], expected[i], 1e-6) << i;
      EXPECT_EQ(Read(**data, input, 1).label[0], 1);
      EXPECT_NEAR(Read(**data, input, 1).pixels[1], 1, 1e-6);
    }
  }
}

TEST(ImageDataset, MeanDeviationAndFactorAreThoseOfTheModel) {
  testing::MemoryStorage storage;
  PutPair(storage, false);
  storage.Put("m/preprocessor_config.json",
              R"({"image_mean": [0, 10], "image_std": [2, 5], "rescale_factor": 1, "size": {"height": 2}})");
  const ImageInput input{.channels = 2, .size = 2, .classes = 4};
  const auto normalization = ReadImageNormalization(storage, "m", 2);
  ASSERT_TRUE(normalization.ok()) << normalization.status();
  const auto data = ImageDataset::Open(storage, {.path = "d", .input = input, .normalization = *normalization});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Read(**data, input, 0).pixels, ElementsAre(0, 127.5F, 25.5F, 51, -2, 49, 8.2F, 18.4F));
  EXPECT_THAT(ReadImageNormalization(storage, "m", 3).status().message(), HasSubstr("image_mean has fewer numbers"));
  EXPECT_THAT(ReadImageNormalization(storage, "m", 1).status().message(), HasSubstr("image_mean has more numbers"));
  EXPECT_TRUE(ReadImageNormalization(storage, "elsewhere", 3)->mean.empty());
}

// Half-pixel centres: from 2 to 4 pixels the places are -0.25 (held at 0), 0.25, 0.75, 1.25 (held at 1).
TEST(ImageDataset, GrowsByBilinearInterpolationWithHalfPixelCentres) {
  testing::MemoryStorage storage;
  storage.Put(kImages, Idx({1, 1, 2}, Bytes({0, 100})));
  storage.Put(kLabels, Idx({1}, Bytes({0})));
  const ImageInput input{.channels = 1, .size = 4, .classes = 1};
  const ImageNormalization raw{.rescale_factor = 1, .mean = {0}, .deviation = {1}};
  const auto data = ImageDataset::Open(storage, {.path = "d", .input = input, .normalization = raw});
  ASSERT_TRUE(data.ok()) << data.status();
  const std::vector<float> pixels = Read(**data, input, 0).pixels;
  for (size_t y = 0; y < 4; ++y) {
    const float expected[] = {0, 25, 75, 100};
    for (size_t x = 0; x < 4; ++x) EXPECT_FLOAT_EQ(pixels[y * 4 + x], expected[x]);
  }
}

// From 4 to 2 pixels the places are 0.5 and 2.5: the mean of two neighbours.
TEST(ImageDataset, ShrinksWithoutSmoothing) {
  testing::MemoryStorage storage;
  storage.Put(kImages, Idx({1, 4, 4}, Bytes({0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60})));
  storage.Put(kLabels, Idx({1}, Bytes({0})));
  const ImageInput input{.channels = 1, .size = 2, .classes = 1};
  const ImageNormalization raw{.rescale_factor = 1, .mean = {0}, .deviation = {1}};
  const auto data = ImageDataset::Open(storage, {.path = "d", .input = input, .normalization = raw});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Read(**data, input, 0).pixels, ElementsAre(10, 18, 42, 50));
}

TEST(ImageDataset, OnePartOfAFolderWithSeveral) {
  testing::MemoryStorage storage;
  PutPair(storage, true);
  storage.Put("d/t10k-images-idx3-ubyte", Idx({1, 1, 1}, Bytes({7})));
  storage.Put("d/t10k-labels-idx1-ubyte.gz", Gzip(Idx({1}, Bytes({2}))));
  const ImageInput input{.channels = 1, .size = 1, .classes = 4};
  EXPECT_EQ((*ImageDataset::Open(storage, {.path = "d", .part = "train", .input = input}))->sequences(), 2);
  EXPECT_EQ((*ImageDataset::Open(storage, {.path = "d", .part = "t10k", .input = input}))->sequences(), 1);
  const absl::Status status = ImageDataset::Open(storage, {.path = "d", .part = "x", .input = input}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("d holds 0 files of images that could be meant"));
}

TEST(ImageDataset, FillsBatchesAsWindowsOfTokensDo) {
  testing::MemoryStorage storage;
  storage.Put(kImages, Idx({5, 1, 1}, Bytes({0, 1, 2, 3, 4})));
  storage.Put(kLabels, Idx({5}, Bytes({0, 1, 2, 3, 4})));
  const ImageInput input{.channels = 1, .size = 1, .classes = 5};
  const ImageNormalization raw{.rescale_factor = 1, .mean = {0}, .deviation = {1}};
  const auto data = *ImageDataset::Open(storage, {.path = "d", .input = input, .normalization = raw});
  auto batches = TrainingBatches::Create(data.get(), {.ranks = 1, .micro_batch = 3, .seed = 1});
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->steps_per_epoch(), 2);
  std::vector<float> pixels(3);
  std::vector<int32_t> labels(3);
  std::vector<int32_t> seen;
  for (int64_t step = 0; step < 2; ++step) {
    Batch batch;
    batch.data[static_cast<size_t>(DataKind::kPixels)] = {reinterpret_cast<std::byte*>(pixels.data()), 12};
    batch.data[static_cast<size_t>(DataKind::kLabels)] = {reinterpret_cast<std::byte*>(labels.data()), 12};
    ASSERT_TRUE(batches->Fill(step, 0, 0, &batch).ok());
    EXPECT_EQ(batch.counted, step == 0 ? 3 : 2);
    for (size_t i = 0; i < 3; ++i) {
      if (labels[i] == kIgnoredLabel) {
        EXPECT_EQ(pixels[i], 0);
        continue;
      }
      EXPECT_EQ(pixels[i], static_cast<float>(labels[i]));
      seen.push_back(labels[i]);
    }
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4));
  const absl::Status few = TrainingBatches::Create(data.get(), {.micro_batch = 6}).status();
  EXPECT_THAT(few.message(), AllOf(HasSubstr("d holds 5 images of 1 x 1, where 1 ranks x --micro_batch=6 need 6"),
                                   HasSubstr("a smaller --micro_batch")));
}

class HostileImages : public ::testing::Test {
 protected:
  HostileImages() { PutPair(storage_, false); }
  void ExpectRefused(std::initializer_list<const char*> words) {
    const auto data = ImageDataset::Open(storage_, {.path = "d", .part = "train", .input = {.size = 2, .classes = 4}});
    ASSERT_FALSE(data.ok()) << *words.begin();
    EXPECT_EQ(data.status().code(), absl::StatusCode::kDataLoss);
    for (const char* word : words) EXPECT_THAT(data.status().message(), HasSubstr(word));
  }
  void WithImages(const std::string& bytes, std::initializer_list<const char*> words) {
    storage_.Put(kImages, bytes);
    ExpectRefused(words);
  }

  testing::MemoryStorage storage_;
  const std::string good_ = Idx({2, 2, 2}, "12345678");
};

TEST_F(HostileImages, Headers) {
  WithImages("", {kImages, "ends at byte 0"});
  WithImages(good_.substr(0, 15), {kImages, "ends at byte 15, within its header"});
  WithImages(Idx({8}, "12345678"), {kImages, "0x00000801 at byte 0", "0x00000803"});
  WithImages(good_.substr(0, good_.size() - 1), {kImages, "ends at byte 23, but its header says 8"});
  WithImages(good_ + "x", {kImages, "ends at byte 25"});
  WithImages(Idx({0, 2, 2}, ""), {kImages, "at byte 4", "0 elements"});
  WithImages(Idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "12345678"), {kImages, "at byte 8", "can't be"});
  WithImages(Idx({2, 1, 20000}, std::string(40000, 'x')), {kImages, "at byte 8", "1 x 20000"});
}

TEST_F(HostileImages, Compressed) {
  const std::string zipped = Gzip(good_);
  WithImages(zipped.substr(0, zipped.size() / 2), {kImages, "ends in the middle of its compressed data"});
  WithImages(zipped.substr(0, zipped.size() - 1), {kImages, "ends in the middle"});
  WithImages(zipped.substr(0, 3), {kImages, "ends in the middle", "at byte 3"});
  WithImages(zipped + "tail", {kImages, "is damaged"});
  std::string damaged = zipped;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // of the checksum
  WithImages(damaged, {kImages, "is damaged"});
  WithImages(Gzip(good_.substr(0, 20)), {kImages, "holds 4 bytes too few"});
  WithImages(Gzip(good_.substr(0, 10)), {kImages, "holds 6 bytes too few"});
  // A bomb: far more behind the images than the header promises.
  WithImages(Gzip(good_ + std::string(50 << 20, '\0')), {kImages, "holds more than its header says"});
  // A header that promises what so few bytes cannot make.
  WithImages(Gzip(Idx({0x7FFFFFFF, 16, 16}, "12")), {kImages, "more than its", "compressed bytes can make"});
}

TEST_F(HostileImages, Labels) {
  storage_.Put(kLabels, Idx({3}, Bytes({0, 0, 0})));
  ExpectRefused({kLabels, "at byte 4", "3 labels", "2 images"});
  storage_.Put(kLabels, Gzip(Idx({2}, Bytes({3, 4}))));
  ExpectRefused({kLabels, "label 4 at byte 9", "4 classes"});
  ASSERT_TRUE(storage_.Remove(kLabels).ok());
  ExpectRefused({kLabels});
}

TEST_F(HostileImages, GzipMembersOneBehindTheOther) {
  storage_.Put(kImages, Gzip(good_.substr(0, 9)) + Gzip(good_.substr(9)));
  EXPECT_TRUE(ImageDataset::Open(storage_, {.path = "d", .part = "train", .input = {.size = 2, .classes = 4}}).ok());
}

}  // namespace
}  // namespace reprise

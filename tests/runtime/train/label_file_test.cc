#include "runtime/train/label_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/tools/fault_storage.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<LabelFile> OpenBytes(const std::string& bytes, int64_t tokens) {
  static testing::MemoryStorage storage;
  storage.Put("labels", bytes);
  return LabelFile::Open(storage, "labels", tokens, /*vocabulary=*/10);
}

std::string Int32s(const std::vector<int32_t>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(LabelFile, AByteATokenIsAMask) {
  const auto file = OpenBytes(std::string("\0\1\1\0\1", 5), 5);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> labels = {7, 8, 9};  // tokens 2, 3, 4
  ASSERT_TRUE(file->Apply(2, absl::MakeSpan(labels)).ok());
  EXPECT_THAT(labels, ElementsAre(7, -100, 9));
}

TEST(LabelFile, FourBytesATokenAreLabels) {
  const auto file = OpenBytes(Int32s({-100, 3, -100, 9}), 4);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> labels = {5, 5, 5};
  ASSERT_TRUE(file->Apply(1, absl::MakeSpan(labels)).ok());
  EXPECT_THAT(labels, ElementsAre(3, -100, 9));
}

TEST(LabelFile, ReadsManyInPieces) {
  std::string mask(10000, '\1');
  mask[4096] = mask[9999] = '\0';
  const auto file = OpenBytes(mask, 10000);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<int32_t> labels(9999, 1);
  ASSERT_TRUE(file->Apply(1, absl::MakeSpan(labels)).ok());
  for (size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(labels[i], i == 4095 || i == 9998 ? -100 : 1) << i;
}

TEST(LabelFile, RefusesAnotherSize) {
  for (const int64_t bytes : {0, 3, 5, 19, 21}) {
    const absl::Status status = OpenBytes(std::string(static_cast<size_t>(bytes), '\1'), 4).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("labels"), HasSubstr("4 tokens")));
  }
}

TEST(LabelFile, RefusesWhatIsNoLabel) {
  std::vector<int32_t> labels = {1, 1};
  const auto mask = OpenBytes(std::string("\1\2", 2), 2);
  EXPECT_THAT(std::string(mask->Apply(0, absl::MakeSpan(labels)).message()), HasSubstr("holds 2 at byte 1"));
  for (const int32_t wrong : {-1, -99, 10, INT32_MAX, INT32_MIN}) {
    const auto file = OpenBytes(Int32s({4, wrong}), 2);
    EXPECT_THAT(std::string(file->Apply(0, absl::MakeSpan(labels)).message()), HasSubstr("at byte 4")) << wrong;
  }
}

}  // namespace
}  // namespace reprise

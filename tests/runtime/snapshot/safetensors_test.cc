#include "runtime/snapshot/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/tools/fault_storage.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of this header and so many bytes (1, 2, 3, ...) after it.
std::string Raw(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<char>(i + 1));
  return file;
}

absl::Status OpenBytes(const std::string& bytes) {
  testing::MemoryStorage storage;
  storage.Put("m.safetensors", bytes);
  return SafetensorsFile::Open(storage, "m.safetensors").status();
}

std::string Tensor(const std::string& name, const std::string& type, const std::string& shape,
                   const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", type, "\",\"shape\":", shape, ",\"data_offsets\":", offsets, "}");
}

void ExpectRefused(const std::string& header, size_t data_bytes, const std::string& why) {
  const absl::Status status = OpenBytes(Raw(header, data_bytes));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << header;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("m.safetensors"), HasSubstr(why))) << header;
}

TEST(SafetensorsFile, ReadsGoldenFile) {
  auto file = SafetensorsFile::Open(PosixStorage(), testing::FixturePath("gpt2/model.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 40);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const StoredTensor* wte = file->Find("transformer.wte.weight");
  ASSERT_NE(wte, nullptr);
  EXPECT_THAT(wte->shape, ElementsAre(97, 36));
  EXPECT_EQ(wte->bytes, 97 * 36 * 4);
  EXPECT_EQ(file->Find("transformer.wte"), nullptr);
  EXPECT_EQ(file->Find(""), nullptr);
}

TEST(SafetensorsFile, RangesAgreeWithTheWhole) {
  auto file = SafetensorsFile::Open(PosixStorage(), testing::FixturePath("gpt2/model.safetensors"));
  ASSERT_TRUE(file.ok());
  std::vector<float> whole(97 * 36);
  ASSERT_TRUE(file->Read("transformer.wte.weight", 0, absl::MakeSpan(whole)).ok());
  std::vector<float> part(100);
  ASSERT_TRUE(file->Read("transformer.wte.weight", 3000, absl::MakeSpan(part)).ok());
  EXPECT_EQ(std::memcmp(part.data(), whole.data() + 3000, 400), 0);
  EXPECT_FALSE(file->Read("transformer.wte.weight", 97 * 36 - 99, absl::MakeSpan(part)).ok());
  EXPECT_FALSE(file->Read("transformer.wte.weight", -1, absl::MakeSpan(part)).ok());
  EXPECT_FALSE(file->Read("transformer.wte.weight", INT64_MAX, absl::MakeSpan(part)).ok());
  EXPECT_FALSE(file->Read("none", 0, absl::MakeSpan(part)).ok());
  std::vector<int64_t> integers(1);
  EXPECT_FALSE(file->Read("transformer.wte.weight", 0, absl::MakeSpan(integers)).ok());
}

TEST(SafetensorsFile, GoldenGradientNormIsThatOfTheGoldenGradients) {
  auto file = SafetensorsFile::Open(PosixStorage(), testing::FixturePath("gpt2/expected.safetensors"));
  ASSERT_TRUE(file.ok());
  double squares = 0;
  for (const StoredTensor& tensor : file->tensors()) {
    if (tensor.name.rfind("grad.", 0) != 0) continue;
    std::vector<double> values(static_cast<size_t>(tensor.elements));
    ASSERT_TRUE(file->Read(tensor.name, 0, absl::MakeSpan(values)).ok());
    for (const double value : values) squares += value * value;
  }
  double norm = 0;
  ASSERT_TRUE(file->Read("gradient_norm", 0, absl::MakeSpan(&norm, 1)).ok());
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-6 * norm);
  std::vector<int64_t> labels(33);
  ASSERT_TRUE(file->Read("labels", 0, absl::MakeSpan(labels)).ok());
  EXPECT_EQ(labels[3], -100);  // make_golden.py: y[0, 3:6] and y[2, 0]
  EXPECT_EQ(labels[5], -100);
  EXPECT_EQ(labels[22], -100);
  EXPECT_GE(labels[0], 0);
}

TEST(SafetensorsFile, ConvertsEveryFloatType) {
  testing::MemoryStorage storage;
  std::string file =
      Raw(absl::StrCat("{", Tensor("d", "F64", "[1]", "[0,8]"), ",", Tensor("h", "F16", "[2]", "[8,12]"), ",",
                       Tensor("b", "BF16", "[]", "[12,14]"), ",", Tensor("i", "I8", "[2]", "[14,16]"), "}"),
          0);
  const double d = -0.1;
  file.append(reinterpret_cast<const char*>(&d), 8);
  file += std::string("\x00\x3c\x00\xc0\xc0\x3f\xff\x7f", 8);  // halves 1, -2; bfloat16 1.5; int8 -1, 127
  storage.Put("f", file);
  auto opened = SafetensorsFile::Open(storage, "f");
  ASSERT_TRUE(opened.ok()) << opened.status();
  float one = 0;
  ASSERT_TRUE(opened->Read("d", 0, absl::MakeSpan(&one, 1)).ok());
  EXPECT_EQ(one, -0.1F);
  ASSERT_TRUE(opened->Read("h", 1, absl::MakeSpan(&one, 1)).ok());
  EXPECT_EQ(one, -2.0F);
  ASSERT_TRUE(opened->Read("b", 0, absl::MakeSpan(&one, 1)).ok());
  EXPECT_EQ(one, 1.5F);
  int64_t whole[2];
  ASSERT_TRUE(opened->Read("i", 0, absl::MakeSpan(whole)).ok());
  EXPECT_THAT(whole, ElementsAre(-1, 127));
  EXPECT_FALSE(opened->Read("i", 0, absl::MakeSpan(&one, 1)).ok());
}

TEST(SafetensorsFile, EveryTruncationIsRefusedWithWhatIsMissing) {
  const std::string header = absl::StrCat("{", Tensor("a", "F32", "[2]", "[0,8]"), "}");
  const std::string good = Raw(header, 8);
  ASSERT_TRUE(OpenBytes(good).ok()) << OpenBytes(good);
  for (size_t length = 0; length < good.size(); ++length) {
    const absl::Status status = OpenBytes(good.substr(0, length));
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    ASSERT_THAT(std::string(status.message()), HasSubstr("m.safetensors is cut short")) << length;
  }
  EXPECT_THAT(std::string(OpenBytes(good.substr(0, good.size() - 3)).message()), HasSubstr("3 bytes are missing"));
  EXPECT_THAT(std::string(OpenBytes(good + "xy").message()), HasSubstr("2 extra bytes"));
}

TEST(SafetensorsFile, EveryFlippedBitIsHandled) {
  const std::string good = Raw(absl::StrCat("{", Tensor("a", "F32", "[2]", "[0,8]"), "}"), 8);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const absl::Status status = OpenBytes(bad);  // must return, whatever it says
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss);
  }
}

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

TEST(SafetensorsFile, GitLfsPointerIsCalledSo) {
  const absl::Status status = OpenBytes(kPointer);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("m.safetensors"), HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull")));
  // Beyond a pointer's size: no pointer, and no safetensors file either.
  EXPECT_THAT(std::string(OpenBytes(kPointer + std::string(1024, ' ')).message()), HasSubstr("header length"));
}

// Refused from the length alone: what the file does not hold is not taken.
TEST(SafetensorsFile, HeaderLongerThanTheFileTakesNoMemory) {
  const uint64_t length = 100'000'000;
  std::string file(reinterpret_cast<const char*>(&length), 8);
  EXPECT_THAT(std::string(OpenBytes(file + "{}").message()), HasSubstr("99999998 bytes are missing of a header"));
}

TEST(SafetensorsFile, HugeHeaderLengthIsRefused) {
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    std::string file(reinterpret_cast<const char*>(&length), 8);
    file += "{}";
    const absl::Status status = OpenBytes(file);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("header length"));
  }
}

TEST(SafetensorsFile, OffsetsMustTileTheData) {
  const auto two = [](const std::string& a, const std::string& b) {
    return absl::StrCat("{", Tensor("a", "F32", "[1]", a), ",", Tensor("b", "F32", "[1]", b), "}");
  };
  EXPECT_TRUE(OpenBytes(Raw(two("[4,8]", "[0,4]"), 8)).ok());
  ExpectRefused(two("[0,4]", "[2,6]"), 6, "overlaps 'a'");
  ExpectRefused(two("[0,4]", "[0,4]"), 4, "overlaps");
  ExpectRefused(two("[0,4]", "[6,10]"), 10, "leaves a hole after 'a'");
  ExpectRefused(two("[1,5]", "[5,9]"), 9, "leaves a hole after 'the header'");
  ExpectRefused(two("[0,4]", "[8,4]"), 8, "needs 4 bytes");
  ExpectRefused(two("[0,4]", "[4,12]"), 12, "needs 4 bytes");
  ExpectRefused(two("[0,4]", "[9223372036854775803,9223372036854775807]"), 8, "hole");
  ExpectRefused(two("[0,4]", "[9223372036854775808,9223372036854775812]"), 8, "beyond 63 bits");
  ExpectRefused(two("[0,4]", "[18446744073709551616,4]"), 8, "not a 63-bit whole number");
  ExpectRefused(two("[0,4]", "[-4,4]"), 8, "negative");
  ExpectRefused(two("[0,4]", "[4.0,8]"), 8, "not a 63-bit whole number");
  ExpectRefused(two("[0,4]", "[4]"), 8, "1 data_offsets in place of 2");
  ExpectRefused(two("[0,4]", "[4,8,8]"), 8, "3 data_offsets in place of 2");
}

TEST(SafetensorsFile, ShapesAreCheckedForOverflow) {
  const auto one = [](const std::string& type, const std::string& shape) {
    return absl::StrCat("{", Tensor("a", type, shape, "[0,4]"), "}");
  };
  ExpectRefused(one("F32", "[9223372036854775807]"), 4, "beyond 63 bits");
  ExpectRefused(one("F32", "[4294967296,4294967296]"), 4, "beyond 63 bits");
  ExpectRefused(one("F32", "[4611686018427387905]"), 4, "beyond 63 bits");  // its bytes wrap to 4
  ExpectRefused(one("F32", "[4294967296,4294967296,0]"), 4, "beyond 63 bits");
  ExpectRefused(one("F32", "[-1]"), 4, "negative");
  ExpectRefused(one("F32", "[2]"), 4, "needs 8 bytes");
  ExpectRefused(one("F99", "[1]"), 4, "unknown dtype 'F99'");
  ExpectRefused(one("f32", "[1]"), 4, "unknown dtype");
  ExpectRefused(one("F32", "[[1]]"), 4, "a list where none belongs");
  ExpectRefused(one("F32", "[\"1\"]"), 4, "text where none belongs");
  ExpectRefused(one("F32", "1"), 4, "a number where none belongs");
  ExpectRefused(one("F32", "null"), 4, "null where none belongs");
  ExpectRefused(one("F32", "[" + std::string(200, '1') + "]"), 4, "not a 63-bit whole number");
  EXPECT_TRUE(OpenBytes(Raw(one("F32", "[1,1,1]"), 4)).ok());
  EXPECT_TRUE(OpenBytes(Raw(absl::StrCat("{", Tensor("a", "F32", "[0,7]", "[0,0]"), "}"), 0)).ok());
}

TEST(SafetensorsFile, HeaderMustBeAnObjectOfTensors) {
  const std::string a = Tensor("a", "F32", "[1]", "[0,4]");
  ExpectRefused("", 0, "does not begin with '{'");
  ExpectRefused("[]", 0, "does not begin with '{'");
  ExpectRefused(" {}", 0, "does not begin with '{'");
  ExpectRefused("{", 0, "not JSON");
  ExpectRefused("{} x", 0, "not JSON");
  ExpectRefused("{\"a\":1}", 0, "a number where none belongs, at 'a'");
  ExpectRefused("{\"a\":[]}", 0, "a list where none belongs");
  ExpectRefused("{\"a\":{}}", 0, "needs dtype, shape and data_offsets");
  ExpectRefused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "twice");
  ExpectRefused("{\"a\":{\"size\":1}}", 0, "unknown field 'size'");
  ExpectRefused(absl::StrCat("{", a, ",", a, "}"), 4, "'a' stands there twice");
  ExpectRefused("{\"__metadata__\":{\"a\":1}}", 0, "a number where none belongs");
  ExpectRefused("{\"__metadata__\":{\"a\":{}}}", 0, "an object where none belongs");
  ExpectRefused("{\"\xff\":1}", 0, "not JSON");
  ExpectRefused("{\"a\":" + std::string(100000, '['), 0, "a list where none belongs");
  EXPECT_TRUE(OpenBytes(Raw("{}", 0)).ok());
  EXPECT_TRUE(OpenBytes(Raw("{\"__metadata__\":{\"a\":\"b\"}}   ", 0)).ok());
}

// Reads a golden file and writes it again.
void ExpectRewrittenByteEqual(const std::string& fixture) {
  const std::string path = testing::FixturePath(fixture);
  auto file = SafetensorsFile::Open(PosixStorage(), path);
  ASSERT_TRUE(file.ok());
  std::vector<TensorDeclaration> declared;
  for (const StoredTensor& tensor : file->tensors()) declared.push_back({tensor.name, tensor.type, tensor.shape});
  testing::MemoryStorage storage;
  auto writer = SafetensorsWriter::Create(storage, "copy", declared, file->metadata());
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string original = *ReadWholeFile(PosixStorage(), path, 1 << 24);
  for (const StoredTensor& tensor : (*writer)->tensors()) {
    if (tensor.type == StoredType::kF32) {
      std::vector<float> values(static_cast<size_t>(tensor.elements));
      ASSERT_TRUE(file->Read(tensor.name, 0, absl::MakeSpan(values)).ok());
      const size_t half = values.size() / 2;
      ASSERT_TRUE((*writer)->Write(tensor.name, absl::MakeConstSpan(values).subspan(0, half)).ok());
      ASSERT_TRUE((*writer)->Write(tensor.name, absl::MakeConstSpan(values).subspan(half)).ok());
    } else {
      const auto* bytes = reinterpret_cast<const std::byte*>(original.data()) + file->Find(tensor.name)->file_offset;
      ASSERT_TRUE(
          (*writer)->WriteBytes(tensor.name, absl::MakeConstSpan(bytes, static_cast<size_t>(tensor.bytes))).ok());
    }
  }
  EXPECT_FALSE(storage.Exists("copy"));
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_TRUE(storage.Get("copy") == original);
}

TEST(SafetensorsWriter, RewritesWhatTheLibraryWroteByteForByte) {
  ExpectRewrittenByteEqual("gpt2/model.safetensors");
  ExpectRewrittenByteEqual("gpt2/expected.safetensors");
  ExpectRewrittenByteEqual("gpt2_deep/model.safetensors");
}

TEST(SafetensorsWriter, NarrowTypesComeBackRounded) {
  testing::MemoryStorage storage;
  auto writer = SafetensorsWriter::Create(storage, "f",
                                          {{"b", StoredType::kBF16, {20000}},
                                           {"d", StoredType::kF64, {2}},
                                           {"h", StoredType::kF16, {3}},
                                           {"none", StoredType::kF32, {0, 3}}});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->tensors()[0].name, "d");  // larger types first, so that each stays aligned
  const float d[] = {0.1F, -1e30F};
  ASSERT_TRUE((*writer)->Write("d", d).ok());
  std::vector<float> b(20000, 1.0F + 0x1p-8F);
  b[19999] = 3.0F;
  ASSERT_TRUE((*writer)->Write("b", b).ok());
  const float h[] = {1.0F / 3, 1e6F, -0.0F};
  ASSERT_TRUE((*writer)->Write("h", h).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  auto file = SafetensorsFile::Open(storage, "f");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> got(20000);
  ASSERT_TRUE(file->Read("b", 0, absl::MakeSpan(got)).ok());
  EXPECT_EQ(got[0], 1.0F);
  EXPECT_EQ(got[19998], 1.0F);
  EXPECT_EQ(got[19999], 3.0F);
  ASSERT_TRUE(file->Read("h", 0, absl::MakeSpan(got).subspan(0, 3)).ok());
  EXPECT_EQ(got[0], 0.333251953125F);
  EXPECT_EQ(got[1], HUGE_VALF);
  ASSERT_TRUE(file->Read("d", 0, absl::MakeSpan(got).subspan(0, 2)).ok());
  EXPECT_EQ(got[0], 0.1F);
  EXPECT_EQ(got[1], -1e30F);
}

TEST(SafetensorsWriter, AnyFailedWriteLeavesNoFile) {
  const float values[] = {1, 2};
  const auto write = [&](Storage& storage) -> absl::Status {
    auto writer = SafetensorsWriter::Create(storage, "f", {{"a", StoredType::kF32, {2}}});
    if (!writer.ok()) return writer.status();
    if (absl::Status status = (*writer)->Write("a", values); !status.ok()) return status;
    return (*writer)->Finish();
  };
  testing::MemoryStorage clean;
  testing::FaultStorage counter(&clean);
  ASSERT_TRUE(write(counter).ok());
  ASSERT_EQ(counter.writes(), 5);  // create, length, header, data, finish
  for (int64_t fail = 1; fail <= counter.writes(); ++fail) {
    testing::MemoryStorage memory;
    testing::FaultStorage faulty(&memory);
    faulty.FailFrom(fail);
    EXPECT_FALSE(write(faulty).ok());
    EXPECT_FALSE(memory.Exists("f"));
  }
}

TEST(SafetensorsWriter, RefusesBadDeclarations) {
  testing::MemoryStorage storage;
  for (const std::vector<TensorDeclaration>& bad :
       {std::vector<TensorDeclaration>{{"a", StoredType::kF32, {1}}, {"a", StoredType::kF16, {1}}},
        std::vector<TensorDeclaration>{{"a", StoredType::kF32, {-1}}},
        std::vector<TensorDeclaration>{{"a", StoredType::kF32, {INT64_MAX}}},
        std::vector<TensorDeclaration>{{"a", StoredType::kU8, {INT64_MAX}}, {"b", StoredType::kU8, {INT64_MAX}}},
        std::vector<TensorDeclaration>{{"__metadata__", StoredType::kF32, {1}}}}) {
    EXPECT_EQ(SafetensorsWriter::Create(storage, "f", bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(storage.Paths().empty());
}

TEST(SafetensorsWriterDeathTest, PiecesOutOfTurnEndTheProcess) {
  testing::MemoryStorage storage;
  const float values[] = {1, 2};
  auto writer = *SafetensorsWriter::Create(storage, "f", {{"a", StoredType::kF32, {2}}, {"b", StoredType::kF32, {2}}});
  EXPECT_DEATH((void)writer->Write("b", values), "out of turn");
  EXPECT_DEATH((void)writer->Finish(), "'a' is not whole");
  ASSERT_TRUE(writer->Write("a", values).ok());
  EXPECT_DEATH((void)writer->Write("a", values), "holds only 8 bytes");
}

}  // namespace
}  // namespace reprise

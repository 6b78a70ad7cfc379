// A file of tokens. The first byte chooses the format, the second the vocabulary, and whether llm.c's header, with the
// count that follows, is put before the rest.
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/train/token_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/fault_storage.h"

namespace reprise::testing {
namespace {

constexpr int64_t kVocabularies[] = {1, 255, 256, 257, 65535, 65536, 65537, int64_t{1} << 31};

std::string WithHeader(const std::string& bytes, bool wide) {
  int32_t header[256] = {wide ? 20240801 : 20240520, wide ? 7 : 1, static_cast<int32_t>(bytes.size() / (wide ? 4 : 2))};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header)) + bytes;
}

}  // namespace
}  // namespace reprise::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  if (size < 2) return 0;
  const auto format = static_cast<TokenFormat>(data[0] % 4);
  const int64_t vocabulary = kVocabularies[data[1] % 8];
  std::string bytes(TextOf(data + 2, size - 2));
  if (data[1] & 8) bytes = WithHeader(bytes, (data[1] & 16) != 0);
  MemoryStorage storage;
  storage.Put(data[0] & 4 ? "t.bin" : "t", bytes);
  const auto file = TokenFile::Open(storage, data[0] & 4 ? "t.bin" : "t", format, vocabulary);
  if (!file.ok()) return CheckRefusal(file.status(), absl::StatusCode::kDataLoss), 0;
  REPRISE_CHECK(file->format() != TokenFormat::kAuto && file->tokens() > 0);
  REPRISE_CHECK(file->tokens() * file->token_bytes() <= static_cast<int64_t>(bytes.size()));
  std::vector<int32_t> tokens(static_cast<size_t>(file->tokens()));
  const absl::Status status = file->Read(0, absl::MakeSpan(tokens));
  if (!status.ok()) {
    REPRISE_CHECK(file->NeedsCheck()) << status.ToString();
    return CheckRefusal(status, absl::StatusCode::kDataLoss), 0;
  }
  for (const int32_t token : tokens) REPRISE_CHECK(token >= 0 && token < vocabulary) << token;
  return 0;
}

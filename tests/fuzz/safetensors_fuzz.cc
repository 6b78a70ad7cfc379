// A safetensors file: the input as a whole file, and as the header of one whose data is right in size.
#include <algorithm>
#include <vector>

#include "runtime/snapshot/safetensors.h"
#include "runtime/snapshot/safetensors_header.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/fault_storage.h"

namespace reprise::testing {
namespace {

constexpr int64_t kPrefixBytes = 8;

// What is accepted lies in the file, one tensor behind the other, and can be read.
void CheckFile(const std::string& bytes) {
  MemoryStorage storage;
  storage.Put("m.safetensors", bytes);
  const auto file = SafetensorsFile::Open(storage, "m.safetensors");
  if (!file.ok()) return CheckRefusal(file.status(), absl::StatusCode::kDataLoss);
  int64_t sum = 0;
  for (const StoredTensor& tensor : file->tensors()) {
    REPRISE_CHECK(file->Find(tensor.name) == &tensor);
    REPRISE_CHECK(tensor.file_offset >= kPrefixBytes && tensor.bytes == tensor.elements * StoredTypeBytes(tensor.type));
    REPRISE_CHECK(tensor.file_offset + tensor.bytes <= static_cast<int64_t>(bytes.size()));
    sum += tensor.bytes;
    std::vector<double> values(static_cast<size_t>(std::min<int64_t>(tensor.elements, 3)));
    std::vector<int64_t> integers(values.size());
    const int64_t first = tensor.elements - static_cast<int64_t>(values.size());
    const bool number = file->Read(tensor.name, first, absl::MakeSpan(values)).ok();
    const bool integer = file->Read(tensor.name, first, absl::MakeSpan(integers)).ok();
    REPRISE_CHECK(!(number && integer));
    REPRISE_CHECK(!file->Read(tensor.name, first + 1, absl::MakeSpan(values)).ok() || values.empty());
  }
  REPRISE_CHECK(sum <= static_cast<int64_t>(bytes.size()) - kPrefixBytes);
}

void CheckHeader(absl::string_view text, int64_t data_bytes) {
  const auto header = ParseSafetensorsHeader(text, "m.safetensors", data_bytes);
  if (!header.ok()) return CheckRefusal(header.status(), absl::StatusCode::kDataLoss);
  int64_t sum = 0;
  for (const StoredTensor& tensor : header->tensors) sum += tensor.bytes;
  REPRISE_CHECK(sum == data_bytes);
}

}  // namespace
}  // namespace reprise::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise::testing;
  const std::string text(TextOf(data, size));
  CheckFile(text);
  const uint64_t header_bytes = size;
  const std::string prefix(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  for (const size_t data_bytes : {0, 4, 8, 24}) {
    CheckHeader(text, static_cast<int64_t>(data_bytes));
    CheckFile(prefix + text + std::string(data_bytes, '\x3f'));
  }
  return 0;
}

// A file of images or labels, plain or gzip. The first byte chooses the dimensions; where its next bit is set, the rest
// is packed as gzip first.
#include <zlib.h>

#include <vector>

#include "runtime/train/idx_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/fault_storage.h"

namespace reprise::testing {
namespace {

std::string Packed(const std::string& bytes) {
  z_stream stream = {};
  constexpr int kGzip = 15 + 16;
  REPRISE_CHECK(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REPRISE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace
}  // namespace reprise::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  if (size < 1) return 0;
  const int dimensions = data[0] & 1 ? 3 : 1;
  std::string bytes(TextOf(data + 1, size - 1));
  if (data[0] & 2) bytes = Packed(bytes);
  MemoryStorage storage;
  storage.Put("i", bytes);
  const auto file = IdxFile::Open(storage, "i", dimensions);
  if (!file.ok()) return CheckRefusal(file.status(), absl::StatusCode::kDataLoss), 0;
  REPRISE_CHECK(file->shape().size() == static_cast<size_t>(dimensions));
  int64_t elements = 1;
  for (const int64_t length : file->shape()) elements *= length;
  REPRISE_CHECK(elements == file->elements() && elements <= static_cast<int64_t>(bytes.size()) * 1032) << elements;
  std::vector<std::byte> all(static_cast<size_t>(elements));
  const absl::Status status = file->Read(0, absl::MakeSpan(all));
  REPRISE_CHECK(status.ok()) << status.ToString();
  return 0;
}

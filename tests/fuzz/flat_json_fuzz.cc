// JSON laid flat: in memory that the text bounds.
#include "base/flat_json.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  const auto flat = ParseFlatJson(TextOf(data, size), "input");
  if (!flat.ok()) return CheckRefusal(flat.status(), absl::StatusCode::kDataLoss), 0;
  size_t bytes = 0;
  for (const auto& [path, value] : *flat) {
    bytes += path.size();
    REPRISE_CHECK(!FormatScalar(value).empty());
  }
  REPRISE_CHECK(flat->size() <= size && bytes <= 64 * size + 65536) << bytes;
  return 0;
}
